package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// A ConfigFile is the value of a flag that names a YAML file of flags: their names
// without dashes in front, and their values. Flags of the command line overrule it.
//
// Relative paths begin in the working directory. In a file that says of itself that it is
// of the run in its own folder (run-dir: .) they begin in that folder, wherever it is moved.
type ConfigFile string

// BeforeResolve reads the file for the flags that the command line does not have. Kong
// calls it.
func (c ConfigFile) BeforeResolve(ctx *kong.Context, trace *kong.Path) error {
	path := string(ctx.FlagValue(trace.Flag).(ConfigFile))
	config, err := readConfig(path, ctx.Flags())
	if err != nil {
		return fmt.Errorf("--%s: %w", trace.Flag.Name, err)
	}
	ctx.AddResolver(config)
	return nil
}

// A config is the mapping in a YAML file.
type config struct {
	path     string
	folder   string // in which relative paths begin; "" for the working directory
	settings map[*kong.Flag]setting
}

// A setting is a key, which is a name or an alias of a flag, and its value.
type setting struct{ key, value *yaml.Node }

// readConfig demands that each key is one of the flags.
func readConfig(path string, flags []*kong.Flag) (*config, error) {
	c := &config{path: path, settings: map[*kong.Flag]setting{}}
	mapping, err := readMapping(path)
	if err != nil {
		return nil, err
	}
	for pair := range slices.Chunk(mapping.Content, 2) {
		if err := c.add(setting{pair[0], pair[1]}, flags); err != nil {
			return nil, err
		}
	}
	for f, s := range c.settings {
		if f.Name == runFolder {
			c.folder = folderOf(path, s.value.Value)
		}
	}
	return c, nil
}

// readMapping reads the mapping of a file, which is empty in an empty one.
func readMapping(path string) (*yaml.Node, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, systemError(err))
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
		return nil, fmt.Errorf("%s:%d: a mapping of flags is expected, such as\n\tlora-r: 16", path, mapping.Line)
	}
	return mapping, nil
}

// runFolder is the flag of the folder of a run, which is ownFolder in the file in it.
const runFolder, ownFolder = "run-dir", "."

// folderOf is the folder in which the relative paths of a file begin that says which the
// folder of the run is, "" for the working directory.
func folderOf(path, run string) string {
	if run != ownFolder {
		return ""
	}
	return filepath.Dir(path)
}

// add keeps a setting by its flag, which no other may set.
func (c *config) add(s setting, flags []*kong.Flag) error {
	name := flagName(s.key.Value)
	i := slices.IndexFunc(flags, func(f *kong.Flag) bool { return f.Name == name || slices.Contains(f.Aliases, name) })
	if i < 0 {
		return fmt.Errorf("%s:%d: there is no flag --%s; --help lists all", c.path, s.key.Line, name)
	}
	if first, twice := c.settings[flags[i]]; twice {
		return fmt.Errorf("%s:%d: %s is there twice; the first is in line %d, as %s", c.path, s.key.Line, s.key.Value, first.key.Line, first.key.Value)
	}
	c.settings[flags[i]] = s
	return nil
}

// flagName is the name of a flag, in which underscores stand for dashes.
func flagName(s string) string { return strings.ReplaceAll(s, "_", "-") }

// Validate has nothing to add to readConfig, which knows the selected command.
func (c *config) Validate(*kong.Application) error { return nil }

// Resolve gives the value of a flag, nil where the file has none.
func (c *config) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	s, ok := c.settings[flag]
	if !ok {
		return nil, nil
	}
	value, err := c.value(flagName(s.key.Value), s.value)
	if err != nil {
		return nil, err
	}
	if c.folder != "" && isFile(flag) {
		value = eachPath(value, func(path string) string { return FromFolder(c.folder, path) })
	}
	if err := tryValue(flag, value); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", c.path, s.value.Line, err)
	}
	return value, nil
}

// tryValue says what is wrong with the value of a flag: of the command line kong and
// [CheckFlags] say it, but they do not know the line of a file.
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

// value is a scalar as the command line would have it, or a list of such.
func (c *config) value(name string, n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		return n.Value, nil
	case yaml.SequenceNode:
		var list []any
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("%s:%d: %s is a list of single values", c.path, item.Line, name)
			}
			list = append(list, item.Value)
		}
		return list, nil
	}
	return nil, fmt.Errorf("%s:%d: %s is a single value or a list of such", c.path, n.Line, name)
}

// ConfigOptions say what [WriteConfig] makes of the values of flags.
type ConfigOptions struct {
	// Folder is that of a run, whose file is written: paths are relative in it, and absolute
	// outside of it.
	Folder string
	// Resolved are values that flags stand for, by their names.
	Resolved map[string]Resolved
}

// Resolved is what a flag stands for.
type Resolved struct {
	Value any    // nil where the flag is to be left out
	Note  string // a comment behind the value
}

// WriteConfig writes flags and their values as a file that a [ConfigFile] can name, in
// sections by group. It leaves out what is empty, not switched on, zero without a default
// that says so, or the value that the tag unset of a flag names, and the flags of that type.
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
			value = eachPath(value, func(path string) string { return ToFolder(o.Folder, path) })
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

// section is the title of the group of a flag.
func section(f *kong.Flag) string {
	if f.Group == nil {
		return ""
	}
	return f.Group.Title
}

// bySection puts the flags of a group beside each other, where its first one is.
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
