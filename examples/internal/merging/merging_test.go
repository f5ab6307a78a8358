package merging

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/examples/internal/adapters"
	"github.com/goggml/ggml/internal/test/need"
)

func TestAdapterArgs(t *testing.T) {
	f := Flags{LoRA: []string{"a,b.gguf", "a.gguf=2"}, Scaled: []string{"c=d.gguf=-0.5", "e.gguf=2"}}
	list := need.Value(f.adapters())(t)
	require.Equal(t, []adapters.Arg{
		{Flag: "--lora", Path: "a,b.gguf", Scale: 1}, {Flag: "--lora", Path: "a.gguf", Scale: 2},
		{Flag: "--lora-scaled", Path: "c=d.gguf", Scale: -0.5}, {Flag: "--lora-scaled", Path: "e.gguf", Scale: 2},
	}, list)
	for _, bad := range []string{"a.gguf", "=1", "a.gguf=", "a.gguf=x", "a.gguf=inf", "a.gguf=nan", "a.gguf=1e99"} {
		f := Flags{Scaled: []string{bad}}
		_, err := f.adapters()
		require.ErrorContains(t, err, "--lora-scaled "+bad, bad)
	}
}

// The help of --type lists its values.
func TestTypeHelp(t *testing.T) {
	field, ok := reflect.TypeFor[Flags]().FieldByName("Type")
	require.True(t, ok)
	require.Contains(t, field.Tag.Get("help"), ": "+TypeNames()+";")
}
