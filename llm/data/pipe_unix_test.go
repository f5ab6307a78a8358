//go:build unix

package data_test

import (
	"context"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/llm/data"
)

// A pipe is read once. Its name or its first bytes determine its format; without a writer it is an
// error.
func TestReadPipe(t *testing.T) {
	t.Chdir(t.TempDir())
	records := "{\"text\": \"one\"}\n{\"text\": \"two\"}\n"
	for name, test := range map[string]struct {
		content string
		want    []string
	}{
		"pipe":       {records, []string{"one", "two"}},
		"list":       {`[{"text": "one"}]`, []string{"one"}},
		"words":      {"one\ntwo\n", []string{"one\ntwo\n"}},
		"pipe.txt":   {records, []string{"one", "two"}},
		"pipe.jsonl": {records, []string{"one", "two"}},
		"pipe.csv":   {"text\none\ntwo\n", []string{"one", "two"}},
	} {
		require.NoError(t, syscall.Mkfifo(name, 0o600))
		require.True(t, data.IsPipe(name))
		require.False(t, data.IsPlainText(name))
		go os.WriteFile(name, []byte(test.content), 0o600)
		var got []string
		for x, err := range data.Read(context.Background(), []string{name}, data.ReadOptions{}) {
			require.NoError(t, err, name)
			got = append(got, x.Text)
		}
		require.Equal(t, test.want, got, name)
	}
	wait := testhook.PipeWait
	testhook.PipeWait = 0
	defer func() { testhook.PipeWait = wait }()
	for _, err := range data.Read(context.Background(), []string{"pipe"}, data.ReadOptions{}) {
		require.EqualError(t, err, "pipe: nobody writes to this pipe; start its writer first")
	}
	require.False(t, data.IsPipe("none"))
	require.True(t, data.IsPipe("/dev/stdin"))
}
