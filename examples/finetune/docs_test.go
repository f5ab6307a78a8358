package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/internal/test/need"
)

// A flagTable has the flags of commands, with aliases and negations, by the commands' names.
type flagTable map[string]map[string]bool

func newFlagTable(t *testing.T) flagTable {
	t.Helper()
	parser := newCommandLine(t).parser
	table := flagTable{}
	for _, command := range parser.Model.Children {
		names := map[string]bool{}
		for _, flag := range command.Flags {
			for _, name := range append([]string{flag.Name}, flag.Aliases...) {
				names[name] = true
				if flag.Tag.Negatable != "" {
					names["no-"+name] = true
				}
			}
		}
		for _, foreign := range foreignOf(command) {
			for _, name := range foreign.Names {
				names[name] = true
			}
		}
		table[command.Name] = names
	}
	return table
}

// foreignOf returns the flags of other programs that a command accepts.
func foreignOf(command *kong.Node) []cli.Foreign {
	if c, ok := command.Target.Addr().Interface().(interface{ Foreign() []cli.Foreign }); ok {
		return c.Foreign()
	}
	return nil
}

var (
	span   = regexp.MustCompile("`([^`]+)`")
	flagIn = regexp.MustCompile(`--[a-z][a-z0-9_-]*`)
)

// checkDocument returns an error if a Markdown text shows a command of this program that does not parse, or a
// flag that no command has. commands may be nil; then it checks no flags.
func checkDocument(text string, commands flagTable) error {
	inBlock := false
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) { // a backslash continues the line
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			inBlock = !inBlock
			continue
		}
		if !inBlock {
			if err := checkSpans(line, commands); commands != nil && err != nil {
				return err
			}
			continue
		}
		args, ok := strings.CutPrefix(line, "finetune ")
		if !ok {
			args, ok = strings.CutPrefix(line, "go run ./examples/finetune ")
		}
		if !ok && strings.HasPrefix(line, "mpirun ") {
			_, args, ok = strings.Cut(line, " finetune ")
		}
		if ok {
			if err := parses(args); err != nil {
				return fmt.Errorf("%s: %w", line, err)
			}
		}
	}
	return nil
}

// parses parses a command line without quotes, up to a comment.
func parses(line string) error {
	line, _, _ = strings.Cut(line, " #")
	parser := cli.New("finetune", &program{}, defaults.Vars(), kong.Writers(io.Discard, io.Discard))
	_, err := parser.Parse(strings.Fields(line))
	return err
}

// checkSpans requires that code spans that start with a flag are flags of a command.
func checkSpans(line string, commands flagTable) error {
	for _, m := range span.FindAllStringSubmatch(line, -1) {
		if !strings.HasPrefix(m[1], "--") {
			continue
		}
		for _, flag := range flagIn.FindAllString(m[1], -1) {
			if !commands.has(flag[2:]) {
				return fmt.Errorf("no command has the flag %s", flag)
			}
		}
	}
	return nil
}

func (t flagTable) has(flag string) bool {
	if flag == "help-all" || flag == "version" { // every program has them
		return true
	}
	for _, names := range t {
		if names[flag] {
			return true
		}
	}
	return false
}

// makeRuns creates the run folders that a text names, and a model, in a new working directory.
func makeRuns(t *testing.T, text string) {
	t.Helper()
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("model.gguf", nil, 0o600))
	for _, folder := range regexp.MustCompile(`\bruns/[\w-]+`).FindAllString(text, -1) {
		require.NoError(t, os.MkdirAll(folder, 0o700))
		for name, content := range map[string]string{"manifest.json": "{}", "config.yaml": "model-base: " + folder, "adapter.gguf": ""} {
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
		}
	}
}

// The documentation shows only existing commands and flags.
func TestDocumentedCommands(t *testing.T) {
	commands := newFlagTable(t)
	read := func(name string) string {
		text := need.Value(os.ReadFile(filepath.Join(root, name)))(t)
		return string(text)
	}
	var pages []string
	for _, name := range []string{
		"README.md", "docs/finetune.md", "docs/deploy.md", "docs/serve.md", "docs/peft.md", "docs/performance.md", "docs/troubleshooting.md", "examples/finetune/README.md",
	} {
		pages = append(pages, read(name))
	}
	others := regexp.MustCompile(`(?m)^\|[^|]*\|`) // the first column has flags of other trainers
	pages = append(pages, others.ReplaceAllString(read("docs/abilities.md"), "|"))
	ofPrograms := []string{read("docs/devices.md"), read("docs/machines.md")} // they name flags of other programs, too
	makeRuns(t, strings.Join(pages, ""))
	for _, text := range pages {
		require.NoError(t, checkDocument(text, commands))
	}
	for _, text := range ofPrograms {
		require.NoError(t, checkDocument(text, nil))
	}

	for text, want := range map[string]string{
		"with `--no-such 3`":                            "no command has the flag --no-such",
		"```sh\nfinetune eval --model m.gguf\n```":      "missing flags: --data=FILE",
		"```sh\nfinetune chat none\n```":                "there is no run none",
		"```sh\nfinetune --model-base m --batch x\n```": "--batch",
		"```sh\nmpirun -np 2 finetune --no-such\n```":   "--no-such",
	} {
		require.ErrorContains(t, checkDocument(text, commands), want)
	}
}
