package cli

import (
	"fmt"
	"slices"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"github.com/goggml/ggml/internal/filelink"
)

// Settings are the contents of a file that [WriteConfig] wrote, readable by programs with other flags.
type Settings struct {
	Folder string // relative paths start here; "" for the working directory
	values map[string][]string
}

// ReadSettings reads a file.
func ReadSettings(path string) (*Settings, error) {
	mapping, err := readMapping(path)
	if err != nil {
		return nil, err
	}
	s := &Settings{values: map[string][]string{}}
	for pair := range slices.Chunk(mapping.Content, 2) {
		name, value := flagName(pair[0].Value), pair[1]
		switch value.Kind {
		case yaml.ScalarNode:
			s.values[name] = []string{value.Value}
		case yaml.SequenceNode:
			for _, item := range value.Content {
				s.values[name] = append(s.values[name], item.Value)
			}
		default:
			return nil, fmt.Errorf("%s:%d: %s must be a single value or a list of single values", path, value.Line, name)
		}
	}
	if run := s.values[runFolder]; len(run) == 1 {
		s.Folder = folderOf(path, run[0])
	}
	return s, nil
}

// Path converts a path in the file to one from the working directory.
func (s *Settings) Path(value string) string { return filelink.FromFolder(s.Folder, value) }

// Values returns the values of a flag, or nil if the file does not set it.
func (s *Settings) Values(flag string) []string { return s.values[flag] }

// NamesFile reports whether the values of a flag are paths.
func NamesFile(f *kong.Flag) bool { return isFile(f) }
