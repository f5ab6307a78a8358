package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/examples/internal/cli"
)

// root is the folder of the repository.
const root = "../.."

// upstreamFlags are those of upstream's finetune, from print_common_train_usage of
// common/train.cpp and train_print_usage of examples/finetune/finetune.cpp, as of July 2024.
var upstreamFlags = strings.Fields(`
	model-base lora-out only-write-lora norm-rms-eps rope-freq-base rope-freq-scale lora-alpha lora-r
	rank-att-norm rank-ffn-norm rank-out-norm rank-tok-embd rank-out rank-wq rank-wk rank-wv rank-wo
	rank-ffn_gate rank-ffn_down rank-ffn_up
	train-data checkpoint-in checkpoint-out pattern-fn-it fn-latest save-every seed ctx threads batch grad-acc
	sample-start include-sample-start escape overlapping-samples fill-with-next-samples
	separate-with-eos separate-with-bos no-separate-with-eos no-separate-with-bos
	sample-random-offsets force-reshuffle no-flash use-flash no-checkpointing use-checkpointing
	warmup cos-decay-steps cos-decay-restart cos-decay-min enable-restart disable-restart
	opt-past opt-delta opt-max-no-improvement epochs adam-iter adam-alpha adam-min-alpha
	adam-decay adam-decay-min-ndim adam-beta1 adam-beta2 adam-gclip adam-epsf n-gpu-layers`)

// An ability is a row of docs/abilities.md.
type ability struct{ section, there, here, proof string }

func readAbilities(t *testing.T, text string) []ability {
	t.Helper()
	var list []ability
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = title
		}
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| there |") || strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		require.Len(t, cells, 3, line)
		list = append(list, ability{section, strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])})
	}
	return list
}

// A flagTable has the flags of commands, by their names, with aliases and negations.
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

// foreignOf are flags of other programs that a command knows.
func foreignOf(command *kong.Node) []cli.Foreign {
	if c, ok := command.Target.Addr().Interface().(interface{ Foreign() []cli.Foreign }); ok {
		return c.Foreign()
	}
	return nil
}

var (
	span    = regexp.MustCompile("`([^`]+)`")
	flagIn  = regexp.MustCompile(`--[a-z][a-z0-9_-]*`)
	testRef = regexp.MustCompile("^`([a-z/-]+) (Test[A-Za-z0-9_]+|[a-z-]+\\.txtar)`$")
)

// flagsOf lists the flags that a cell names, with their commands: "" for other programs.
func flagsOf(cell string, commands flagTable) (list [][2]string) {
	for _, m := range span.FindAllStringSubmatch(cell, -1) {
		words, command := strings.Fields(m[1]), "train"
		for _, word := range words {
			switch {
			case commands[word] != nil:
				command = word
			case word == "generate":
				command = "" // its flags are not of this program
			case strings.HasPrefix(word, "--"):
				list = append(list, [2]string{command, strings.TrimPrefix(word, "--")})
			}
		}
	}
	return list
}

// check says what is wrong with a row.
func (a ability) check(commands flagTable) error {
	flags := flagsOf(a.here, commands)
	for _, f := range flags {
		if names := commands[f[0]]; names != nil && !names[f[1]] {
			return fmt.Errorf("finetune %s has no flag --%s", f[0], f[1])
		}
	}
	isOpen := a.proof == "follows" || a.proof == "–"
	switch {
	case a.proof == "–" && !strings.HasPrefix(a.here, "no"):
		return fmt.Errorf("an ability without a proof")
	case a.proof == "follows" && !strings.Contains(a.here, "follows"):
		return fmt.Errorf("the proof follows, and the ability is claimed")
	case isOpen:
		return nil
	}
	m := testRef.FindStringSubmatch(a.proof)
	if m == nil {
		return fmt.Errorf("%s is neither a test nor a script", a.proof)
	}
	folder, name := filepath.Join(root, m[1]), m[2]
	if strings.HasSuffix(name, ".txtar") {
		return usesFlag(folder, name, flags)
	}
	return hasTest(folder, name)
}

// hasTest demands a test in a folder, whatever its build tags.
func hasTest(folder, name string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)") {
			return nil
		}
	}
	return fmt.Errorf("%s has no test %s", folder, name)
}

// usesFlag demands a script that runs one of the flags, where there are any.
func usesFlag(folder, name string, flags [][2]string) error {
	text, err := os.ReadFile(filepath.Join(folder, "testdata", "script", name))
	if err != nil {
		return err
	}
	used := func(f [2]string) bool {
		inFile := f[1] + ":" // in a configuration file
		return strings.Contains(strings.ReplaceAll(string(text), "_", "-"), "--"+f[1]) || strings.Contains("\n"+string(text), "\n"+inFile)
	}
	if len(flags) > 0 && !slices.ContainsFunc(flags, used) {
		return fmt.Errorf("%s runs none of the flags", name)
	}
	return nil
}

// The table of docs/abilities.md names flags and tests that exist, and all flags of
// upstream's program, which work by their names.
func TestAbilities(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "abilities.md"))
	require.NoError(t, err)
	rows, commands := readAbilities(t, string(text)), newFlagTable(t)
	require.Greater(t, len(rows), 150)
	open := map[string]bool{}
	told := map[string]bool{}
	for _, a := range rows {
		assert.NoError(t, a.check(commands), "%s: %s", a.section, a.there)
		for _, flag := range flagIn.FindAllString(a.there, -1) {
			if strings.HasPrefix(a.section, "Upstream") {
				told[flag[2:]], open[flag[2:]] = true, a.proof == "follows"
			}
		}
	}
	for _, flag := range upstreamFlags {
		assert.True(t, told[flag], "no row has upstream's --%s", flag)
		known := commands["train"][strings.ReplaceAll(flag, "_", "-")]
		assert.Equal(t, !open[flag], known, "whether --%s works by its name", flag)
	}
}

// What is wrong with a row is found.
func TestAbilityFaults(t *testing.T) {
	commands := newFlagTable(t)
	for _, c := range []struct{ here, proof, want string }{
		{"`--lora-r`, `--no-such`", "`llm/train TestPatience`", "finetune train has no flag --no-such"},
		{"`eval --lora-r`", "`llm/train TestPatience`", "finetune eval has no flag --lora-r"},
		{"`--lora-r`", "`llm/train TestOfNothing`", "has no test TestOfNothing"},
		{"`--lora-r`", "`llm/nothing TestPatience`", "has no test TestPatience"},
		{"`--lora-r`", "by hand", "by hand is neither a test nor a script"},
		{"`--lora-r`", "–", "an ability without a proof"},
		{"`--lora-r`", "follows", "the proof follows, and the ability is claimed"},
		{"`--cos-decay-min`", "`examples/finetune device.txtar`", "device.txtar runs none of the flags"},
		{"`--lora-r`", "`examples/finetune none.txtar`", "no such file"},
	} {
		require.ErrorContains(t, ability{here: c.here, proof: c.proof}.check(commands), c.want, c.here)
	}
	require.NoError(t, ability{here: "`merge --type`, `--no-separate-with-bos`, `generate --chat`", proof: "`llm/train TestPatience`"}.check(commands))
}
