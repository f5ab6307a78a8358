package clitest

import (
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/examples/internal/cli"
)

// Numbers gives each numeric flag 0, -1, the largest value of its type, one more, NaN and infinity. It requires
// that each value is accepted, or rejected by an error with the flag's name, the value and the allowed range.
// It logs a table of the results and returns the number of flags.
func Numbers(t *testing.T, name string, flags any, options ...kong.Option) int {
	t.Helper()
	options = append(options, kong.Exit(func(int) { t.Fatal("exit") }), kong.Writers(io.Discard, io.Discard))
	parser := cli.New(name, flags, options...)
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	count := 0
	commands := parser.Model.Leaves(false)
	if len(commands) == 0 {
		commands = []*kong.Node{parser.Model.Node}
	}
	for _, command := range commands {
		for _, f := range command.Flags {
			if !IsNumber(f) {
				continue
			}
			count++
			for _, value := range Extremes(f) {
				fmt.Fprintf(w, "%s\t--%s\t%s\t%s\n", command.FullPath(), f.Name, value, outcome(t, parser, command, f, value))
			}
		}
	}
	require.NoError(t, w.Flush())
	t.Logf("\n%s", table.String())
	return count
}

// IsNumber reports whether a flag's value is a number or a duration.
func IsNumber(f *kong.Flag) bool {
	switch number(f).Kind() {
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float32, reflect.Float64:
		return true
	}
	return false
}

// number returns the type of a flag's value. If the flag holds a pointer, that is the type it points to.
func number(f *kong.Flag) reflect.Type {
	if typ := f.Target.Type(); typ.Kind() == reflect.Pointer {
		return typ.Elem()
	}
	return f.Target.Type()
}

// Extremes returns 0, -1, the largest value of a flag, one more, NaN and infinity.
func Extremes(f *kong.Flag) []string {
	largest, beyond := "9223372036854775807", "9223372036854775808"
	switch typ := number(f); {
	case typ.String() == "time.Duration":
		return []string{"0", "0s", "-1s", "9223372036s", "9223372037s", "NaN", "Inf"}
	case typ.Kind() == reflect.Uint64:
		largest, beyond = "18446744073709551615", "18446744073709551616"
	case typ.Kind() == reflect.Float32:
		largest, beyond = strconv.FormatFloat(math.MaxFloat32, 'g', -1, 32), "1e39"
	case typ.Kind() == reflect.Float64:
		largest, beyond = strconv.FormatFloat(math.MaxFloat64, 'g', -1, 64), "1e309"
	}
	return []string{"0", "-1", largest, beyond, "NaN", "Inf"}
}

// outcome describes the result of a value in words.
func outcome(t *testing.T, p *cli.Parser, command *kong.Node, f *kong.Flag, value string) string {
	t.Helper()
	var args []string
	if command != p.Model.Node {
		args = []string{command.Name}
	}
	for _, other := range command.Flags {
		other.Set = false // as in a new process
		if other.Required || other.Tag.Has("needed") {
			args = append(args, "--"+other.Name+"=x")
		}
	}
	for _, p := range command.Positional {
		if p.Required {
			args = append(args, "x")
		}
	}
	what := fmt.Sprintf("%s --%s=%s", command.FullPath(), f.Name, value)
	_, err := p.Parse(append(args, "--"+f.Name+"="+value))
	if err == nil {
		require.NotContains(t, []string{"NaN", "Inf", "9223372036854775808", "18446744073709551616", "1e39", "1e309", "9223372037s"}, value, what)
		if value == "-1" && !f.Hidden {
			require.Contains(t, f.Help, "-1", "%s is taken, and the help does not say what it means", what)
		}
		return "taken"
	}
	require.ErrorContains(t, err, "--"+f.Name, "%s", what)
	require.Contains(t, err.Error(), "it must be ", what)
	require.Contains(t, err.Error(), value, what)
	return err.Error()
}
