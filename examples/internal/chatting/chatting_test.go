package chatting

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// Command reads flags of other programs.
func TestCommand(t *testing.T) {
	var program struct {
		Chat Command `cmd:"" help:"Chat with a model."`
	}
	var help strings.Builder
	parser := need.Value(kong.New(&program, kong.Writers(&help, io.Discard), kong.Exit(func(int) {})))(t)
	parsed := need.Value(parser.Parse([]string{"chat", "-m", "m.gguf", "--lora", "a.gguf=2", "--template-var", "k=a,b", "-p", "x,y", "-p", "z", "-n", "5", "--temp", "0"}))(t)
	require.Equal(t, "chat", parsed.Command())
	c := program.Chat
	require.Equal(t, "m.gguf", c.Model)
	require.Equal(t, []string{"a.gguf=2"}, c.LoRA)
	require.Equal(t, []string{"k=a,b"}, c.TemplateVar)
	require.Equal(t, []string{"x,y", "z"}, c.Prompt)
	require.Equal(t, 5, c.NPredict)
	require.Zero(t, c.Temp)
	require.Equal(t, 40, c.TopK)
	_, err := parser.Parse([]string{"chat", "--help", "-m", "x"})
	require.NoError(t, err)
	require.Contains(t, help.String(), "/help lists commands")
}

// Given finds each flag that is set.
func TestGiven(t *testing.T) {
	require.Empty(t, (&Flags{}).Given())
	kind := reflect.TypeFor[Flags]()
	for i := range kind.NumField() {
		var f Flags
		switch field := reflect.ValueOf(&f).Elem().Field(i); field.Kind() {
		case reflect.Bool:
			field.SetBool(true)
		case reflect.Slice:
			field.Set(reflect.ValueOf([]string{"x"}))
		default:
			field.SetString("x")
		}
		require.Equal(t, "--"+kind.Field(i).Tag.Get("name"), f.Given())
	}
}

func TestLines(t *testing.T) {
	ctx := context.Background()
	l := readLines(ctx, strings.NewReader("a\r\n\nb"))
	for _, want := range []string{"a", "", "b"} {
		got := need.Value(l.next(ctx))(t)
		require.Equal(t, want, got)
	}
	for range 2 {
		_, err := l.next(ctx)
		require.Equal(t, io.EOF, err)
	}

	// The end of the context is noticed while no input arrives.
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	l = readLines(ctx, r)
	cause := errors.New("enough")
	cancel(cause)
	_, err := l.next(ctx)
	require.Equal(t, cause, err)
}
