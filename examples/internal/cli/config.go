package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"github.com/goggml/ggml/internal/filelink"
)

// A ConfigFile is the value of a flag that names a YAML file of flags: their names without dashes, and their
// values. Flags of the command line override it.
//
// Relative paths start in the working directory. If the file is in the folder of its own run (run-dir: .), they
// start in that folder, even after the folder was moved.
//
// Keys of other programs are read if the command knows them, see [Foreign]. Keys that other commands of the
// program have are ignored, because a run's file is for training and other commands read it too. Keys that
// training does not know are reported.
type ConfigFile string

// BeforeResolve reads the file for the flags that the command line does not set. Kong calls it.
func (c ConfigFile) BeforeResolve(ctx *kong.Context, trace *kong.Path) error {
	path := string(ctx.FlagValue(trace.Flag).(ConfigFile))
	var node *kong.Node
	for _, p := range ctx.Path {
		if n := p.Node(); n != nil {
			node = n // the command, not the program
		}
	}
	config, err := readConfig(path, vocabulariesFrom(ctx.Model.Node, node))
	if err != nil {
		return fmt.Errorf("--%s: %w", trace.Flag.Name, err)
	}
	for _, note := range config.notes {
		fmt.Fprintln(ctx.Stderr, note)
	}
	ctx.AddResolver(config)
	return nil
}

// A config is the mapping in a YAML file.
type config struct {
	words    []vocabulary // of the command, then of the default command, then of the others
	path     string
	folder   string // relative paths start here; "" for the working directory
	settings map[*kong.Flag]*setting
	order    []*kong.Flag // of the keys in the file
	notes    []string
	faults   []error
}

// A setting is a key of the file, with the values of the flag that it sets.
type setting struct {
	key   *yaml.Node
	line  int // line of the value
	value any // a string, or a list of strings

	implied bool // see Setting
}

// readConfig reads a file. Each key must be a flag of a command.
func readConfig(path string, words []vocabulary) (*config, error) {
	mapping, err := readMapping(path)
	if err != nil {
		return nil, err
	}
	c := &config{words: words, path: path, settings: map[*kong.Flag]*setting{}}
	c.mapping("", mapping)
	for f, s := range c.settings {
		if run, single := s.value.(string); single && f.Name == runFolder {
			c.folder = folderOf(path, run)
		}
	}
	for _, f := range c.order {
		s := c.settings[f]
		if !slices.Contains(words[0].flags, f) {
			continue
		}
		if c.folder != "" && isFile(f) {
			s.value = eachPath(s.value, func(path string) string { return filelink.FromFolder(c.folder, path) })
		}
		if err := tryValue(f, s.value); err != nil {
			c.fault(s.line, "%w", err)
		}
	}
	return c, joinFaults("keys are", c.faults)
}

// readMapping reads the top-level mapping of a file. An empty file has an empty mapping.
func readMapping(path string) (*yaml.Node, error) {
	const most = 1 << 20 // bytes; people write these files by hand
	text, err := filelink.Read(path, most)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, filelink.SystemError(err))
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(document.Content) == 0 { // an empty file
		return &yaml.Node{Kind: yaml.MappingNode}, nil
	}
	mapping := document.Content[0]
	if mapping.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: expected a mapping of flags, such as\n\tlora-r: 16", path, mapping.Line)
	}
	return mapping, nil
}

// runFolder is the flag of a run's folder. In the file inside that folder its value is ownFolder.
const runFolder, ownFolder = "run-dir", "."

// folderOf returns the folder in which the relative paths of a file start, given the file's run-dir; "" for the
// working directory.
func folderOf(path, run string) string {
	if run != ownFolder {
		return ""
	}
	return filepath.Dir(path)
}

func (c *config) fault(line int, format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf("%s:%d: "+format, append([]any{c.path, line}, args...)...))
}

// mapping reads the keys of a mapping. prefix stands before their names.
func (c *config) mapping(prefix string, mapping *yaml.Node) {
	for pair := range slices.Chunk(mapping.Content, 2) {
		key, value := pair[0], pair[1]
		name := prefix + flagName(key.Value)
		of := c.knows(name)
		switch {
		case value.Tag == "!!null": // not set
		case of != nil && of.foreignFlag(name) != nil:
			c.translate(of, of.foreignFlag(name), key, value)
		case value.Kind == yaml.MappingNode && c.hasSection(name+"."):
			c.mapping(name+".", value)
		case value.Kind == yaml.MappingNode && slices.Contains(sections, name):
			c.mapping("", value)
		case of == nil:
			all := vocabulary{}
			for _, v := range c.words {
				all.flags, all.foreign = append(all.flags, v.flags...), append(all.foreign, v.foreign...)
			}
			c.faults = append(c.faults, all.unknown(fmt.Sprintf("%s:%d: there is no flag ", c.path, key.Line), name))
		default:
			if of != &c.words[0] && of != &c.words[1] {
				c.notes = append(c.notes, fmt.Sprintf("%s:%d: %s changes nothing here: it is a flag of %s", c.path, key.Line, key.Value, of.command))
			}
			if values, ok := c.values(key.Value, value); ok {
				c.set(of.flag(name), &setting{key: key, line: value.Line, value: values})
			}
		}
	}
}

// knows returns the first vocabulary that has a name, or nil.
func (c *config) knows(name string) *vocabulary {
	for i := range c.words {
		if v := &c.words[i]; v.foreignFlag(name) != nil || v.flag(name) != nil {
			return v
		}
	}
	return nil
}

// sections are mappings in files of other programs whose keys are plain flags.
var sections = []string{"model", "data", "training", "lora", "logging"}

// hasSection reports whether a mapping contains foreign flags.
func (c *config) hasSection(prefix string) bool {
	return slices.ContainsFunc(c.words, func(v vocabulary) bool {
		return slices.ContainsFunc(v.foreign, func(f Foreign) bool {
			return slices.ContainsFunc(f.Names, func(name string) bool { return strings.HasPrefix(name, prefix) })
		})
	})
}

// translate reads a key that is a foreign flag of the command.
func (c *config) translate(of *vocabulary, f *Foreign, key, node *yaml.Node) {
	v := Value{List: scalars(node)}
	if node.Kind == yaml.MappingNode {
		v.Map = map[string][]string{}
		for pair := range slices.Chunk(node.Content, 2) {
			v.Map[flagName(pair[0].Value)] = scalars(pair[1])
		}
	}
	meaning, err := f.Read(v)
	if err != nil {
		c.fault(key.Line, "%s: %w", strings.TrimSpace(key.Value+" "+v.String()), err)
	}
	if meaning.Note != "" && of == &c.words[0] {
		c.notes = append(c.notes, fmt.Sprintf("%s:%d: %s %v: %s", c.path, key.Line, key.Value, v, meaning.Note))
	}
	for _, s := range meaning.Settings {
		flag := c.knows(s.Flag).flag(s.Flag)
		set := &setting{key: key, line: node.Line, value: s.Values[0], implied: s.Implied}
		if flag.IsSlice() {
			set.value = list(s.Values)
		}
		c.set(flag, set)
	}
}

// scalars returns the single values of a node.
func scalars(n *yaml.Node) (list []string) {
	if n.Kind == yaml.ScalarNode {
		return []string{n.Value}
	}
	for _, item := range n.Content {
		if item.Kind == yaml.ScalarNode && n.Kind == yaml.SequenceNode {
			list = append(list, item.Value)
		}
	}
	return list
}

// texts returns a value as a list of strings.
func texts(value any) []string {
	if text, single := value.(string); single {
		return []string{text}
	}
	var l []string
	for _, item := range value.([]any) {
		l = append(l, item.(string))
	}
	return l
}

func list(texts []string) (l []any) {
	for _, text := range texts {
		l = append(l, text)
	}
	return l
}

// set records the value of a flag. Setting a flag twice is an error.
func (c *config) set(f *kong.Flag, s *setting) {
	first, twice := c.settings[f]
	switch {
	case !twice:
		c.settings[f] = s
		c.order = append(c.order, f)
	case s.implied:
	case first.implied:
		*first = *s
	case f.Tag.Sep == -1 && flagName(first.key.Value) != flagName(s.key.Value): // several keys may be items of one list
		first.value = append(list(texts(first.value)), list(texts(s.value))...)
	case first.key.Value == s.key.Value || !reflect.DeepEqual(first.value, s.value):
		c.fault(s.key.Line, "%s is given twice: line %d gives it as %s", s.key.Value, first.key.Line, first.key.Value)
	}
}

// flagName converts the underscores of a flag's name to dashes.
func flagName(s string) string { return strings.ReplaceAll(s, "_", "-") }

// Validate does nothing: readConfig has checked the file for the selected command.
func (c *config) Validate(*kong.Application) error { return nil }

// Resolve returns the value of a flag, or nil if the file does not set it.
func (c *config) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if s, ok := c.settings[flag]; ok {
		return s.value, nil
	}
	return nil, nil
}

// tryValue validates the value of a flag. Kong and [CheckFlags] validate values of the command line, but do not
// know the line of a file.
func tryValue(f *kong.Flag, value any) error {
	target := reflect.New(f.Target.Type()).Elem()
	scan := kong.Scan().PushTyped(value, kong.FlagValueToken)
	if err := f.Mapper.Decode(&kong.DecodeContext{Value: f.Value, Scan: scan}, target); err != nil {
		return err
	}
	if f.Enum != "" && !f.EnumMap()[fmt.Sprint(target)] {
		return fmt.Errorf("%v: it must be one of %s", target, strings.Join(f.EnumSlice(), ", "))
	}
	if limits := f.Tag.Get("range"); limits != "" {
		if allowed, inside := inRange(target, limits); !inside {
			return fmt.Errorf("%v: it must be %s", target, allowed)
		}
	}
	return nil
}

// values returns a scalar as the command line would have it, or a list of scalars.
func (c *config) values(name string, n *yaml.Node) (value any, ok bool) {
	switch n.Kind {
	case yaml.ScalarNode:
		return n.Value, true
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				c.fault(item.Line, "%s must be a list of single values", name)
				return nil, false
			}
			list = append(list, item.Value)
		}
		return list, true
	}
	c.fault(n.Line, "%s must be a single value or a list of single values", name)
	return nil, false
}

// ConfigOptions control how [WriteConfig] writes the values of flags.
type ConfigOptions struct {
	// Folder is the run's folder, in which the file is written. Paths inside it are written relative to it,
	// other paths absolute.
	Folder string
	// Resolved maps names of flags to the values that the run chose for them.
	Resolved map[string]Resolved
}

// Resolved is the value that the run chose for a flag.
type Resolved struct {
	Value any    // nil omits the flag
	Note  string // a comment after the value
}

// WriteConfig writes flags and their values as a file for [ConfigFile], in sections by group. It omits empty
// values, switches that are off, zeros that are not given and have no default, values equal to the tag unset of
// their flag, and flags of type ConfigFile.
func WriteConfig(w io.Writer, flags []*kong.Flag, o ConfigOptions) error {
	root := &yaml.Node{Kind: yaml.MappingNode}
	group := ""
	for _, f := range bySection(flags) {
		value, note := f.Target.Interface(), ""
		r, resolved := o.Resolved[f.Name]
		switch _, config := value.(ConfigFile); {
		case resolved && r.Value == nil, config, f.Name == "help", !resolved && isEmpty(f):
			continue
		case resolved:
			value, note = r.Value, r.Note
		}
		if o.Folder != "" && isFile(f) {
			value = eachPath(value, func(path string) string { return filelink.ToFolder(o.Folder, path) })
		}
		key, node := &yaml.Node{Kind: yaml.ScalarNode, Value: f.Name}, &yaml.Node{}
		if title := section(f); title != group {
			group = title
			key.HeadComment = group
		}
		if err := node.Encode(value); err != nil {
			return fmt.Errorf("--%s: %w", f.Name, err)
		}
		node.LineComment = note
		root.Content = append(root.Content, key, node)
	}
	encoder := yaml.NewEncoder(w)
	return errors.Join(encoder.Encode(root), encoder.Close())
}

// section returns the title of a flag's group.
func section(f *kong.Flag) string {
	if f.Group == nil {
		return ""
	}
	return f.Group.Title
}

// bySection moves the flags of a group to the group's first flag.
func bySection(flags []*kong.Flag) []*kong.Flag {
	first := map[string]int{}
	for i, f := range flags {
		if _, known := first[section(f)]; !known {
			first[section(f)] = i
		}
	}
	flags = slices.Clone(flags)
	slices.SortStableFunc(flags, func(a, b *kong.Flag) int { return first[section(a)] - first[section(b)] })
	return flags
}

func isEmpty(f *kong.Flag) bool {
	if f.Tag.Has("unset") && fmt.Sprint(f.Target) == f.Tag.Get("unset") {
		return true
	}
	switch v := f.Target; v.Kind() {
	case reflect.String, reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Bool:
		return !v.Bool() && f.Tag.Negatable == ""
	}
	return !f.HasDefault && f.Target.IsZero()
}
