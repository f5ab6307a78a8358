package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// A Foreign is a flag of other programs, or a key of their files, that is not just an alias: its values are written
// differently, or nothing here corresponds to it.
type Foreign struct {
	Names []string // a key of a mapping in a file is written "lora-parameters.rank"
	Flag  string   // the corresponding flag here; "" for none or several
	Help  string
	Bool  bool // a switch: true without a value
	Read  func(v Value) (Meaning, error)
}

// A Value is the value of a foreign flag.
type Value struct {
	List []string            // one value or several
	Map  map[string][]string // a mapping in a file
}

// String returns the value as on the command line.
func (v Value) String() string { return strings.Join(v.List, " ") }

// A Meaning is what a foreign flag's value means here.
type Meaning struct {
	Settings []Setting
	Note     string // told to the user, such as that the flag has no effect
}

// A Setting is a flag of the program with its values.
type Setting struct {
	Flag    string
	Values  []string
	Implied bool // only if nothing else gives the flag
}

// A translated command accepts flags of other programs.
type translated interface{ Foreign() []Foreign }

// foreignFlags returns the foreign flags of the commands on a path.
func foreignFlags(node *kong.Node) (list []Foreign) {
	for ; node != nil; node = node.Parent {
		if !node.Target.IsValid() || !node.Target.CanAddr() {
			continue
		}
		if command, ok := node.Target.Addr().Interface().(translated); ok {
			list = append(list, command.Foreign()...)
		}
	}
	return list
}

// A vocabulary has the flags of a command, and the foreign flags that it accepts.
type vocabulary struct {
	command string
	flags   []*kong.Flag
	foreign []Foreign
}

// flag finds a flag by its name or an alias.
func (v *vocabulary) flag(name string) *kong.Flag {
	for _, f := range v.flags {
		if f.Name == name || slices.Contains(f.Aliases, name) {
			return f
		}
	}
	return nil
}

// negation reports whether a name switches a flag off.
func (v *vocabulary) negation(name string) bool {
	f := v.flag(strings.TrimPrefix(name, "no-"))
	return f != nil && f.Tag.Negatable != "" && "no-"+f.Name == name
}

func (v *vocabulary) foreignFlag(name string) *Foreign {
	for i, f := range v.foreign {
		if slices.Contains(f.Names, name) {
			return &v.foreign[i]
		}
	}
	return nil
}

// unknown returns the error for an unknown flag.
func (v *vocabulary) unknown(prefix, name string) error {
	text := fmt.Sprintf("%s--%s", prefix, name)
	if list := v.suggest(name); len(list) > 0 {
		return fmt.Errorf("%s; did you mean %s?", text, strings.Join(list, " or "))
	}
	return fmt.Errorf("%s; --help-all lists all", text)
}

// A commandLine translates the arguments of a command.
type commandLine struct {
	vocabulary
	takesFile bool     // a file of flags may be a bare argument, as in LLaMA-Factory
	args      []string // arguments not yet read
	out       []string // arguments for kong
	notes     []string
	faults    []error
	given     map[*kong.Flag][2]string // name and value of single-valued flags
	implied   []Setting
}

// translate replaces foreign flags by the command's own, and returns all faults at once.
func (c *commandLine) translate() error {
	c.given = map[*kong.Flag][2]string{}
	for len(c.args) > 0 && c.args[0] != "--" {
		arg := c.args[0]
		c.args = c.args[1:]
		switch {
		case strings.HasPrefix(arg, "--"):
			c.long(arg[2:])
		case c.takesValue(arg):
			c.out = append(c.out, arg)
			c.pass()
		case isYAML(arg) && c.takesFile:
			c.out = append(c.out, "--config="+arg)
		default:
			c.out = append(c.out, arg)
		}
	}
	for _, s := range c.implied {
		if _, given := c.given[c.flag(s.Flag)]; !given {
			c.out = append(c.out, "--"+s.Flag+"="+s.Values[0])
		}
	}
	c.out = append(c.out, c.args...)
	return joinFaults("flags are", c.faults)
}

// joinFaults joins several errors into one, a line each.
func joinFaults(what string, faults []error) error {
	if len(faults) < 2 {
		return errors.Join(faults...)
	}
	text := fmt.Sprintf("%d %s wrong:", len(faults), what)
	for _, err := range faults {
		text += "\n  " + err.Error()
	}
	return errors.New(text)
}

// long reads a flag that was written with two dashes; arg is without them.
func (c *commandLine) long(arg string) {
	name, value, hasValue := strings.Cut(arg, "=")
	if f := c.flag(name); f != nil {
		if !hasValue {
			value, hasValue = c.value(f)
		}
		if hasValue {
			arg = name + "=" + value
		}
		c.out = append(c.out, "--"+arg)
		if hasValue || f.IsBool() {
			c.note(f, name, value)
		} else if len(c.args) > 0 {
			c.note(f, name, c.args[0])
			c.pass()
		}
		return
	}
	if c.negation(name) {
		c.out = append(c.out, "--"+arg)
		return
	}
	if f := c.foreignFlag(name); f != nil {
		c.foreign(f, name, value, hasValue)
		return
	}
	c.faults = append(c.faults, c.unknown("unknown flag ", name))
}

// foreign replaces a flag of another program by the flags that it stands for.
func (c *commandLine) foreign(f *Foreign, name, value string, hasValue bool) {
	v := Value{List: []string{value}}
	if !hasValue {
		v.List = c.foreignValues(f)
	}
	if len(v.List) == 0 {
		c.faults = append(c.faults, fmt.Errorf("--%s: its value is missing", name))
		return
	}
	meaning, err := f.Read(v)
	if err != nil {
		if strings.HasSuffix(name, "token") { // may be a secret
			v.List = []string{"…"}
		}
		c.faults = append(c.faults, fmt.Errorf("--%s %v: %w", name, v, err))
		return
	}
	if meaning.Note != "" {
		c.notes = append(c.notes, fmt.Sprintf("--%s %v: %s", name, v, meaning.Note))
	}
	for _, s := range meaning.Settings {
		flag := c.flag(s.Flag)
		if flag == nil {
			panic("there is no flag --" + s.Flag + ", which --" + name + " stands for") // an error in the program's source
		}
		if s.Implied {
			c.implied = append(c.implied, s)
			continue
		}
		for _, value := range s.Values {
			c.out = append(c.out, "--"+s.Flag+"="+value)
		}
		c.note(flag, name, strings.Join(s.Values, " "))
	}
}

// pass copies an argument unchanged: it is the value of the flag before it.
func (c *commandLine) pass() {
	if len(c.args) > 0 && !strings.HasPrefix(c.args[0], "--") {
		c.out, c.args = append(c.out, c.args[0]), c.args[1:]
	}
}

// takesValue reports whether an argument is a short flag whose value is the next one.
func (c *commandLine) takesValue(arg string) bool {
	return len(arg) == 2 && arg[0] == '-' && slices.ContainsFunc(c.flags, func(f *kong.Flag) bool { return f.Short == rune(arg[1]) && !f.IsBool() })
}

// value reads a flag's value where other programs put it and kong does not look: the value of a switch, and the
// items of a list.
func (c *commandLine) value(f *kong.Flag) (string, bool) {
	switch {
	case f.IsBool():
		if len(c.args) > 0 && isBoolWord(c.args[0]) {
			word := strings.ToLower(c.args[0])
			c.args = c.args[1:]
			return word, true
		}
	case f.IsSlice() && f.Tag.Sep == ',':
		if list := c.words(); len(list) > 0 {
			return strings.Join(list, ","), true
		}
	}
	return "", false
}

// foreignValues reads the values of a foreign flag from the arguments.
func (c *commandLine) foreignValues(f *Foreign) []string {
	if !f.Bool {
		return c.words()
	}
	word := "true"
	if len(c.args) > 0 && isBoolWord(c.args[0]) {
		word, c.args = strings.ToLower(c.args[0]), c.args[1:]
	}
	return []string{word}
}

// words reads arguments up to the next flag.
func (c *commandLine) words() []string {
	n := 0
	for n < len(c.args) && (!strings.HasPrefix(c.args[n], "-") || isNegative(c.args[n]) || c.args[n] == "-") {
		n++
	}
	list := c.args[:n]
	c.args = c.args[n:]
	return list
}

func isBoolWord(s string) bool { return strings.EqualFold(s, "true") || strings.EqualFold(s, "false") }

// note rejects two values for one flag under different names. Under the same name the last value counts, as
// usual.
func (c *commandLine) note(f *kong.Flag, name, value string) {
	if f.IsSlice() {
		return
	}
	if first, twice := c.given[f]; twice && first[0] != name && first[1] != value {
		c.faults = append(c.faults, fmt.Errorf("--%s %s and --%s %s are one flag, --%s; leave one out", first[0], first[1], name, value, f.Name))
	}
	c.given[f] = [2]string{name, value}
}
