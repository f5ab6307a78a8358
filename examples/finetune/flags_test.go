package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/clitest"
	"github.com/goggml/ggml/internal/test/need"
)

// A commandLine parses arguments as main does, repeatedly: building the parser is slow.
type commandLine struct {
	program *program
	parser  *cli.Parser
}

func newCommandLine(t *testing.T) *commandLine {
	t.Helper()
	p := new(program)
	return &commandLine{p, cli.New("finetune", p, defaults.Vars(), kong.Exit(func(int) { t.Fatal("exit") }), kong.Writers(io.Discard, io.Discard))}
}

func (c *commandLine) parse(args ...string) ([]*kong.Flag, error) {
	for _, n := range c.parser.Model.Leaves(false) {
		for _, f := range n.Flags {
			f.Set = false // as in a new process
		}
	}
	parsed, err := c.parser.Parse(args)
	if err != nil {
		return nil, err
	}
	return parsed.Flags(), nil
}

// commands returns the program's commands, each with its required flags and arguments.
func (c *commandLine) commands(t *testing.T) map[*kong.Node][]string {
	t.Helper()
	list := map[*kong.Node][]string{}
	for _, n := range c.parser.Model.Leaves(false) {
		args := []string{n.Name}
		for _, f := range n.Flags {
			if f.Required || f.Tag.Has("needed") {
				args = append(args, "--"+f.Name+"=x")
			}
		}
		for _, p := range n.Positional {
			if p.Required {
				args = append(args, "x")
			}
		}
		list[n] = args
	}
	require.Len(t, list, 11)
	return list
}

// wrongValues returns values that a flag must reject, and what each error must contain besides the flag's name.
// Values that name files, devices and tensors, or that have a syntax of their own, are rejected later: see the
// scripts.
func wrongValues(f *kong.Flag) map[string]string {
	if f.Enum != "" {
		return map[string]string{"no-such-value": "must be one of"}
	}
	switch kind := numberKind(f); {
	case f.Target.Type() == reflect.TypeFor[cli.Size]():
		return map[string]string{"plenty": "expected a size such as 6GiB", "800": "has no unit"}
	case f.IsBool() && kind == reflect.String:
		return map[string]string{"maybe": "expected HOST:PORT"}
	case f.IsBool():
		return map[string]string{"maybe": "true, 1, yes, false, 0 or no"}
	case strings.HasSuffix(f.Target.Type().String(), "time.Duration"):
		return map[string]string{"soon": "duration", "-1m": "it must be at least 0"}
	case kind == reflect.Int, kind == reflect.Int64, kind == reflect.Uint64:
		return withOutside(f, map[string]string{"many": "expected a valid", "1.5": "expected a valid"})
	case kind == reflect.Float32, kind == reflect.Float64:
		return withOutside(f, map[string]string{"many": "expected a float", "NaN": "a finite number", "Inf": "a finite number"})
	}
	return nil
}

// withOutside adds numbers just outside the range of a flag.
func withOutside(f *kong.Flag, wrong map[string]string) map[string]string {
	interval := f.Tag.Get("range")
	if interval == "" {
		return wrong
	}
	prefix := "it must be "
	if single, rest, besides := strings.Cut(interval, "|"); besides {
		prefix, interval = prefix+single+", or ", rest
	}
	low, high, _ := strings.Cut(interval[1:len(interval)-1], ",")
	outside := func(bound, open string, by float64) string {
		x, _ := strconv.ParseFloat(bound, 64)
		if !strings.Contains(interval, open) {
			x += by
		}
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	least := outside(low, "(", -1)
	if strings.HasPrefix(f.Tag.Get("range"), least+"|") {
		least = outside(low, "(", -2)
	}
	wrong[least] = prefix + map[bool]string{true: "above ", false: "at least "}[interval[0] == '('] + low
	if high != "" {
		wrong[outside(high, ")", 1)] = map[bool]string{true: "below ", false: "at most "}[strings.HasSuffix(interval, ")")] + high
	}
	return wrong
}

// numberKind returns the kind of a flag's value; it follows a pointer.
func numberKind(f *kong.Flag) reflect.Kind {
	if f.Target.Kind() == reflect.Pointer {
		return f.Target.Type().Elem().Kind()
	}
	return f.Target.Kind()
}

// Numeric flags accept or reject 0, -1, the largest number, NaN and infinity; -v prints the results.
func TestNumbers(t *testing.T) {
	require.Greater(t, clitest.Numbers(t, "finetune", new(program), defaults.Vars()), 70)
}

// The error for a wrong value of any flag names the flag, the value and what is allowed.
func TestWrongValuesOfAllFlags(t *testing.T) {
	count, line := 0, newCommandLine(t)
	for c, required := range line.commands(t) {
		for _, f := range c.Flags {
			for value, want := range wrongValues(f) {
				args := slices.DeleteFunc(slices.Clone(required), func(arg string) bool { return arg == "--"+f.Name+"=x" })
				_, err := line.parse(append(args, "--"+f.Name+"="+value)...)
				require.Error(t, err, "%s --%s=%s", c.Name, f.Name, value)
				require.Contains(t, err.Error(), "--"+f.Name)
				require.Contains(t, err.Error(), want, err.Error())
				require.Contains(t, strings.ToLower(err.Error()), strings.ToLower(strings.TrimSuffix(value, "m")), "%s %s", c.Name, err)
				count++
			}
		}
	}
	require.Greater(t, count, 200)
}

// Each flag has a help text with its allowed values and its default.
func TestHelpOfAllFlags(t *testing.T) {
	for c := range newCommandLine(t).commands(t) {
		for _, f := range c.Flags {
			name := c.Name + " --" + f.Name
			if f.Hidden {
				require.True(t, strings.HasPrefix(f.Name, "rank-") && strings.HasSuffix(f.Name, "-norm"), name)
				continue
			}
			require.Regexp(t, `^[A-Z].*[.…]$`, f.Help, name)
			for _, value := range f.EnumSlice() {
				if f.Enum != "" {
					require.Contains(t, f.Help, value, name)
				}
			}
			if clitest.IsNumber(f) {
				require.True(t, f.Tag.Has("range"), "%s has no range", name)
			}
			// The placeholder is the default, or the help states it.
			if f.HasDefault && !f.IsBool() && f.Tag.PlaceHolder != "" {
				require.Contains(t, f.Help, "default", name)
			}
		}
	}
}

// config.yaml reproduces the value of every flag of train.
func TestConfigurationOfAllFlags(t *testing.T) {
	need.Time(t, "tries each flag")
	path := filepath.Join(t.TempDir(), "config.yaml")
	line := newCommandLine(t)
	flags := need.Value(line.parse("train", "--model-base=x"))(t)
	for _, f := range flags {
		if f.Name == "config" || f.Name == "help" || f.Hidden {
			continue
		}
		for _, value := range goodValues(t, f) {
			args := []string{"train", "--model-base=x", "--" + f.Name + "=" + value}
			if f.Name == "model-base" {
				args = args[:2]
			}
			flags, err := line.parse(args...)
			require.NoError(t, err, args)
			want := line.program.Train
			var text bytes.Buffer
			require.NoError(t, cli.WriteConfig(&text, flags, cli.ConfigOptions{}))
			require.NoError(t, os.WriteFile(path, text.Bytes(), 0o600))
			_, err = line.parse("train", "--config", path)
			require.NoError(t, err, "%v\n%s", args, text.String())
			got := line.program.Train
			got.Config = ""
			require.Equal(t, want, got, args)
		}
	}
}

// goodValues returns values of a flag, including some that are not its default.
func goodValues(t *testing.T, f *kong.Flag) []string {
	t.Helper()
	interval := f.Tag.Get("range")
	switch {
	case f.Enum != "":
		return f.EnumSlice()
	case f.Target.Type() == reflect.TypeFor[cli.Size]():
		return []string{"6GiB", "auto"}
	case f.IsBool():
		return []string{"true", "false"}
	case strings.HasSuffix(f.Target.Type().String(), "time.Duration"):
		return []string{"1h30m", "0s"}
	case interval != "" && numberKind(f) <= reflect.Int64:
		return []string{"2", strings.FieldsFunc(interval, func(r rune) bool { return strings.ContainsRune("[,|", r) })[0]}
	case strings.HasPrefix(interval, "[1,"):
		return []string{"1.25"}
	case interval != "":
		return []string{"0.25", "1e-7"}
	case f.Target.Kind() == reflect.Slice:
		return []string{"a, b: \"c\"=d"}
	}
	require.Equal(t, reflect.String, f.Target.Kind(), f.Name)
	return []string{`text with: "signs" # and \n`, "007", "true", "2026-11-25"}
}

// The command line overrides the file; a file may use aliases of flags.
func TestConfigurationIsOverruled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.yaml")
	require.NoError(t, os.WriteFile(path, []byte("model: base.gguf\nlearning_rate: 3e-4\nepochs: 2\ntrain-data: [a, b]\ntargets: [attn_q, v_proj]\n"), 0o600))
	line := newCommandLine(t)
	_, err := line.parse("train", "--config", path, "--adam-alpha", "1e-3", "--train-data", "c")
	require.NoError(t, err)
	p := line.program
	require.Equal(t, "base.gguf 0.001 2 [c] [attn_q v_proj] 0.9", fmt.Sprint(p.Train.ModelBase, " ", p.Train.Rate, " ", p.Train.Epochs, " ", p.Train.TrainData, " ", p.Train.Targets, " ", p.Train.Beta1))
	for text, want := range map[string]string{
		"adam-beta1: 1":                      path + ":2: 1: it must be at least 0 and below 1",
		"warmup: few":                        path + `:2: expected a valid 64 bit int but got "few"`,
		"schedule: rising":                   path + ":2: rising: it must be one of cosine, linear, constant",
		"max-time: soon":                     path + `:2: expected duration but got "soon"`,
		"packing: maybe":                     path + `:2: bool value must be true, 1, yes, false, 0 or no but got "maybe"`,
		"iteration: 3":                       path + ":2: there is no flag --iteration; did you mean --adam-iter?",
		"epochs: 3\nepochs: 4":               path + ":3: epochs is given twice: line 2 gives it",
		"targets: {attn_q: 3}":               path + ":2: targets must be a single value or a list of single values",
		"rank-of: [attn_q=3, {ffn_down: 4}]": path + ":2: rank-of must be a list of single values",
	} {
		require.NoError(t, os.WriteFile(path, []byte("model: base.gguf\n"+text+"\n"), 0o600))
		_, err := line.parse("train", "--config", path)
		require.ErrorContains(t, err, want, text)
	}
}
