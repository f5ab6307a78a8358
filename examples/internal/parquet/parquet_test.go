package parquet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
)

func records(t *testing.T, path string) []string {
	var all []string
	for record, err := range Records(path) {
		require.NoError(t, err)
		require.True(t, json.Valid(record), "%s", record)
		all = append(all, string(record))
	}
	return all
}

// ordered returns JSON with Go's spaces and escapes, in the original order of keys.
func ordered(t *testing.T, source string) string {
	d := json.NewDecoder(strings.NewReader(source))
	var out strings.Builder
	for {
		token, err := d.Token()
		if err != nil {
			return out.String()
		}
		fmt.Fprintf(&out, "%T %v,", token, token)
	}
}

// Files of pyarrow are read as pyarrow reads them, in the order of the columns.
func TestRecords(t *testing.T) {
	source := need.Value(os.ReadFile("testdata/messages.jsonl"))(t)
	want := strings.Split(strings.TrimSpace(string(source)), "\n")
	got := records(t, "testdata/messages.parquet")
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, ordered(t, want[i]), ordered(t, got[i]), got[i])
	}
	require.Contains(t, got[0], `{"id": 1, "messages": [{"role": "user", "content": "U \"1\" \\ \u000a\u0007"}, {"role": "assistant", "content": "A 日本", "weight": 0.5}]`)
}

// Row groups, pages, dictionaries and compression do not change the records.
func TestEncodings(t *testing.T) {
	got := records(t, "testdata/texts.parquet")
	require.Len(t, got, 1000)
	for i, record := range got {
		require.Equal(t, fmt.Sprintf(`{"text": "text %d", "n": %d}`, i%7, i), record)
	}
	for _, name := range []string{"gzip", "lz4", "brotli", "none"} {
		require.Equal(t, got[:3], records(t, "testdata/"+name+".parquet"), name)
	}
}

// The records are training data; a row counts as a line.
func TestExamples(t *testing.T) {
	o := data.ReadOptions{Readers: map[string]data.RecordReader{".parquet": Records}}
	var all []data.Example
	var fault error
	for x, err := range data.Read(context.Background(), []string{"testdata/messages.parquet"}, o) {
		if fault = err; err == nil {
			all = append(all, x)
		}
	}
	require.Len(t, all, 2)
	require.InDelta(t, 0.5, all[0].Messages[1].Weight, 0)
	require.JSONEq(t, `[{"name": "f"}]`, string(all[1].Tools))
	require.Equal(t, []string{"user", "assistant", "tool", "assistant"}, []string{all[1].Messages[0].Role(), all[1].Messages[1].Role(), all[1].Messages[2].Role(), all[1].Messages[3].Role()})
	require.EqualError(t, fault, `testdata/messages.parquet:3: "messages" has no message; remove the record`)
}

func TestBrokenFiles(t *testing.T) {
	good, err := os.ReadFile("testdata/texts.parquet")
	require.NoError(t, err)
	damage := func(name string, content []byte) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	last := func(path string) (n int, fault error) {
		for _, err := range Records(path) {
			if fault = err; err == nil {
				n++
			}
		}
		return n, fault
	}
	for name, content := range map[string][]byte{
		"empty": nil, "text": []byte("Once upon a time"), "cut": good[:len(good)/2],
		"without its end": append(good[:len(good):len(good)], "PAR1"...), "magic": []byte("PAR1PAR1"),
	} {
		_, err := last(damage("a.parquet", content))
		require.ErrorContains(t, err, "the Parquet file is damaged: ", name)
	}
	// Damage of any byte is an error or other values, never a panic.
	for at := 0; at < len(good); at += 97 {
		content := append([]byte{}, good...)
		content[at] ^= 0x41
		n, err := last(damage("a.parquet", content))
		require.True(t, err != nil || n > 0, at)
	}
	_, err = last("testdata/none-such.parquet")
	require.EqualError(t, err, "no such file or directory")
	for range Records("testdata/texts.parquet") {
		break
	}
}
