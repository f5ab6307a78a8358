package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// literals returns the string literals of programs from which messages are built, by position.
func literals(t *testing.T, folders ...string) map[string]string {
	t.Helper()
	list := map[string]string{}
	set := token.NewFileSet()
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "clitest") {
				return err
			}
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.ImportSpec:
					return false
				case *ast.BasicLit:
					if n.Kind == token.STRING {
						text := need.Value(strconv.Unquote(n.Value))(t)
						list[set.Position(n.Pos()).String()] = text
					}
				}
				return true
			})
			return nil
		})
		require.NoError(t, err)
	}
	return list
}

var (
	// A command of this program within a text, with its flags and placeholders.
	inProse = regexp.MustCompile(`\bfinetune(?: ([a-z]+))?((?: --[a-z-]+(?: [A-Z]+)?)+)`)
	// A command line built by a format string instead of package cli, which quotes it.
	madeByHand = regexp.MustCompile(`\b(?:finetune|generate|export-lora|pretrain|llama-[a-z]+|go run) (?:-|[a-z]+ -)[^;:,]*%`)
)

// besides are flags of all programs and of llama.cpp that advice sets.
var besides = strings.Fields("help jinja chat-template-file chat-template-kwargs override-kv")

// faultOf returns the error in the advice of a text, or "".
func faultOf(text string, commands flagTable) string {
	if m := madeByHand.FindString(text); m != "" {
		return "a command line that cli.Advise does not print: " + m
	}
	for _, m := range inProse.FindAllStringSubmatch(text, -1) {
		command := m[1]
		if commands[command] == nil {
			command = "train"
		}
		for _, flag := range flagIn.FindAllString(m[2], -1) {
			if !commands[command][flag[2:]] {
				return "finetune " + command + " has no flag " + flag
			}
		}
	}
	for _, flag := range flagIn.FindAllString(text, -1) {
		if name := strings.ReplaceAll(flag[2:], "_", "-"); !commands.has(name) && !slices.Contains(besides, name) {
			return "no command has the flag " + flag
		}
	}
	return ""
}

// Messages name existing flags, and only one function advises command lines.
func TestMessagesNameFlags(t *testing.T) {
	commands := newFlagTable(t)
	for at, text := range literals(t, ".", "../internal") {
		assert.Empty(t, faultOf(text, commands), "%s: %q", at, text)
	}
	for text, want := range map[string]string{
		"finetune eval --data FILE measures": "", "give it with --chat-template FILE": "", "finetune --run-dir creates one": "",
		"try --no-such":               "no command has the flag --no-such",
		"finetune merge --ctx 3 does": "finetune merge has no flag --ctx",
		"finetune chat --model %s":    "a command line that cli.Advise does not print: finetune chat --model %",
		"llama-cli -m %s":             "a command line that cli.Advise does not print: llama-cli -m %",
	} {
		require.Equal(t, want, faultOf(text, commands), text)
	}
}
