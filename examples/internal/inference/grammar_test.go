package inference

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// Grammars and JSON schemas are read from files; errors name the flag.
func TestReadGrammar(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	require.Nil(t, need.Value(new(Sampling).ReadGrammar())(t))
	write(`root ::= "a"`)
	require.True(t, need.Value(need.Value((&Sampling{Grammar: path}).ReadGrammar())(t).Match("a"))(t))
	write(`{"type": "integer"}`)
	require.True(t, need.Value(need.Value((&Sampling{JSONSchema: path}).ReadGrammar())(t).Match("12"))(t))
	_, err := (&Sampling{Grammar: path}).ReadGrammar()
	require.ErrorContains(t, err, "--grammar "+path+": grammar: line 1, column 1")
	_, err = (&Sampling{JSONSchema: path + "x"}).ReadGrammar()
	require.ErrorContains(t, err, "--json-schema: ")
}
