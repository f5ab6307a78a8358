package data

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
)

// write writes a file to a new folder, and returns its path.
func write(t testing.TB, name, content string) string {
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func gzipped(t testing.TB, content string) string {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.NoCompression) // uncompressed, so that half of the file is half of the text
	require.NoError(t, err)
	_, err = io.WriteString(z, content)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.String()
}

// shown formats an example as a line of text: what a template sees of a conversation, and the rest.
func shown(t testing.TB, x Example) string {
	var b strings.Builder
	if x.Text != "" {
		fmt.Fprintf(&b, "text %q ", x.Text)
	}
	if x.Prompt != "" || x.Completion != "" {
		fmt.Fprintf(&b, "prompt %q completion %q ", x.Prompt, x.Completion)
	}
	if len(x.Messages) > 0 {
		template := need.Value(chat.Parse("shown", `{{ messages | tojson }}{% if tools %} tools {{ tools | tojson }}{% endif %}{% if documents %} documents {{ documents | tojson }}{% endif %} `))(t)
		r := need.Value(template.Render(&x.Conversation, nil))(t)
		b.WriteString(r.Text)
		for _, m := range x.Messages {
			if m.Weight != 1 {
				fmt.Fprintf(&b, "weight of %s %v ", m.Role(), m.Weight)
			}
		}
		if x.PromptMessages > 0 {
			fmt.Fprintf(&b, "prompt messages %d ", x.PromptMessages)
		}
	}
	return strings.TrimSpace(b.String())
}

func readAll(sources []string, o ReadOptions) ([]Example, error) {
	var all []Example
	for x, err := range Read(context.Background(), sources, o) {
		if err != nil {
			return all, err
		}
		all = append(all, x)
	}
	return all, nil
}

const greeting = `{"messages": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "A"}]}`

const shownGreeting = `[{"role": "user", "content": "U"}, {"role": "assistant", "content": "A"}]`

func TestReadFormats(t *testing.T) {
	for _, c := range []struct {
		name, file, content string
		o                   ReadOptions
		want                []string
	}{
		{"messages", "a.jsonl", greeting + "\n" + greeting + "\n", ReadOptions{}, []string{shownGreeting, shownGreeting}},
		{"no line end, CRLF, blank lines and BOM", "a.jsonl", "\ufeff\r\n" + greeting + "\r\n\r\n  \n" + greeting, ReadOptions{}, []string{shownGreeting, shownGreeting}},
		{"gzip", "a.jsonl.gz", gzipped(t, greeting+"\n"), ReadOptions{}, []string{shownGreeting}},
		{"a list", "a.json", "[\n " + greeting + ",\n" + greeting + "]\n", ReadOptions{}, []string{shownGreeting, shownGreeting}},
		{"a list with brackets in texts", "a.json", `[{"text": "]}\\\"["}, {"text": "b"}]`, ReadOptions{}, []string{`text "]}\\\"["`, `text "b"`}},
		{"lines in .json", "a.json", greeting, ReadOptions{}, []string{shownGreeting}},
		{"plain text", "a.txt", "{\n\ttext\n", ReadOptions{}, []string{`text "{\n\ttext\n"`}},
		{"unknown keys and null", "a.jsonl", `{"id": 1, "text": null, "messages": [{"role": "user", "content": "U", "x": {"b": [1.0, null]}, "name": null}], "prompt": "P"}`, ReadOptions{},
			[]string{`[{"role": "user", "content": "U", "x": {"b": [1.0, null]}}]`}},
		{"parts", "a.jsonl", `{"messages": [{"role": "user", "content": [{"type": "text", "text": "U"}]}]}`, ReadOptions{},
			[]string{`[{"role": "user", "content": [{"type": "text", "text": "U"}]}]`}},
		{"weights", "a.jsonl", `{"messages": [{"role": "user", "content": "U", "train": true}, {"weight": 0.5, "role": "assistant", "content": "A"}, {"role": "assistant", "content": "B", "train": false, "weight": 2}]}`, ReadOptions{},
			[]string{`[{"role": "user", "content": "U"}, {"role": "assistant", "content": "A"}, {"role": "assistant", "content": "B"}] weight of assistant 0.5 weight of assistant 0`}},
		{"tools", "a.jsonl", `{"messages": [{"role": "user", "content": "U"}, {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"z\": 1, \"a\": 2}"}}]}, {"role": "tool", "content": {"deg": 3}}], "tools": [{"type": "function", "function": {"name": "f"}}], "documents": []}`, ReadOptions{},
			[]string{`[{"role": "user", "content": "U"}, {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"z\": 1, \"a\": 2}"}}]}, {"role": "tool", "content": {"deg": 3}}] tools [{"type": "function", "function": {"name": "f"}}]`}},
		{"functions", "a.jsonl", `{"messages": [{"role": "user", "content": "U"}, {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{\"z\": 1}"}}, {"role": "function", "name": "f", "content": "3"}], "functions": [{"name": "f"}]}`, ReadOptions{},
			[]string{`[{"role": "user", "content": "U"}, {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{\"z\": 1}"}}]}, {"role": "function", "name": "f", "content": "3"}] tools [{"type": "function", "function": {"name": "f"}}]`}},
		{"tools as a text", "a.jsonl", `{"messages": [{"role": "user", "content": "U"}], "tools": "[{\"name\": \"f\"}]", "documents": "[{\"title\": \"D\"}]"}`, ReadOptions{},
			[]string{`[{"role": "user", "content": "U"}] tools [{"name": "f"}] documents [{"title": "D"}]`}},
		{"tools that are an empty text", "a.jsonl", `{"messages": [{"role": "user", "content": "U"}], "tools": ""}`, ReadOptions{}, []string{`[{"role": "user", "content": "U"}]`}},
		{"ShareGPT", "a.jsonl", `{"conversations": [{"from": "human", "value": "U"}, {"from": "gpt", "value": "A", "weight": 0}]}`, ReadOptions{}, []string{shownGreeting + " weight of assistant 0"}},
		{"ShareGPT with roles", "a.jsonl", `{"conversations": [{"role": "user", "content": "U"}, {"role": "model", "content": "A"}]}`, ReadOptions{}, []string{shownGreeting}},
		{"ShareGPT with tools", "a.jsonl", `{"conversations": [{"from": "human", "value": "U"}, {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"z\": 1, \"a\": 2}}"}, {"from": "observation", "value": "3"}, {"from": "gpt", "value": "A"}], "system": "S", "tools": "[{\"name\": \"f\"}]"}`, ReadOptions{},
			[]string{`[{"role": "system", "content": "S"}, {"role": "user", "content": "U"}, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"z": 1, "a": 2}}}]}, {"role": "tool", "content": "3"}, {"role": "assistant", "content": "A"}] tools [{"type": "function", "function": {"name": "f"}}]`}},
		{"ShareGPT with wrapped calls", "a.jsonl", `{"conversations": [{"from": "tool_call", "value": "[{\"function\": {\"name\": \"f\", \"arguments\": {}}}, {\"name\": \"g\"}]"}]}`, ReadOptions{},
			[]string{`[{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}, {"type": "function", "function": {"name": "g"}}]}]`}},
		{"Alpaca", "a.json", `[{"instruction": "Add.", "input": "1 2", "output": "3"}, {"instruction": "Hi", "input": "", "output": "Ho"}, {"instruction": "Hi", "output": "Ho", "system": "S"}]`, ReadOptions{},
			[]string{`prompt "Below is an instruction that describes a task, paired with an input that provides further context. Write a response that appropriately completes the request.\n\n### Instruction:\nAdd.\n\n### Input:\n1 2\n\n### Response:\n" completion "3" [{"role": "user", "content": "Add.\n\n1 2"}, {"role": "assistant", "content": "3"}]`,
				`prompt "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n### Instruction:\nHi\n\n### Response:\n" completion "Ho" [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]`,
				`prompt "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n### Instruction:\nHi\n\n### Response:\n" completion "Ho" [{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]`}},
		{"prompt and completion", "a.jsonl", `{"prompt": "P\u00e9\ud83d\ude00", "completion": ""}`, ReadOptions{}, []string{`prompt "Pé😀" completion "" [{"role": "user", "content": "Pé😀"}, {"role": "assistant", "content": ""}]`}},
		{"prompt and completion with more", "a.jsonl", `{"prompt": "U", "completion": "A", "system": "S", "reasoning_content": "R", "tools": [{"name": "f"}]}`, ReadOptions{},
			[]string{`prompt "U" completion "A" [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}, {"thinking": "R", "role": "assistant", "content": "A", "reasoning_content": "R"}] tools [{"name": "f"}]`}},
		{"prompt of messages with a system", "a.jsonl", `{"prompt": [{"role": "user", "content": "U"}], "completion": [{"role": "assistant", "content": "A"}], "system": "S"}`, ReadOptions{},
			[]string{`[{"role": "system", "content": "S"}, ` + shownGreeting[1:] + ` prompt messages 2`}},
		{"messages with a system", "a.jsonl", `{"system": "S", "messages": [{"role": "user", "content": "U"}]}`, ReadOptions{}, []string{`[{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]`}},
		{"the same system twice", "a.jsonl", `{"system": "S", "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]}`, ReadOptions{}, []string{`[{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]`}},
		{"an empty system", "a.jsonl", `{"system": " ", "messages": [{"role": "user", "content": "U"}]}`, ReadOptions{}, []string{`[{"role": "user", "content": "U"}]`}},
		{"prompt and completion of messages", "a.jsonl", `{"prompt": [{"role": "user", "content": "U"}], "completion": [{"role": "assistant", "content": "A"}], "tools": [{"name": "f"}]}`, ReadOptions{}, []string{shownGreeting + ` tools [{"name": "f"}] prompt messages 1`}},
		{"text", "a.ndjson", `{"text": "a\nb"}`, ReadOptions{}, []string{`text "a\nb"`}},
		{"other keys", "a.jsonl", `{"dialog": [{"speaker": "bot", "words": "A"}]}`, ReadOptions{Keys: map[string]string{"messages": "dialog", "role": "speaker", "content": "words"}}, []string{`[{"role": "assistant", "content": "A"}]`}},
		{"other names of a prompt", "a.jsonl", `{"prompt": "no", "question": "Q", "answer": "A"}`, ReadOptions{Keys: map[string]string{"prompt": "question", "completion": "answer"}}, []string{`prompt "Q" completion "A" [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]`}},
		{"other roles", "a.jsonl", `{"messages": [{"role": "agent", "content": "A"}]}`, ReadOptions{Roles: map[string]string{"agent": "assistant"}}, []string{`[{"role": "assistant", "content": "A"}]`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := need.Value(readAll([]string{write(t, c.file, c.content)}, c.o))(t)
			var got []string
			for _, x := range all {
				got = append(got, shown(t, x))
			}
			require.Equal(t, c.want, got)
		})
	}
}

// Every example has its line number.
func TestReadPlaces(t *testing.T) {
	lines := write(t, "a.jsonl", "\n{\"text\": \"1\"}\n\n{\"text\": \"2\"}")
	list := write(t, "b.json", "[{\"text\": \"3\"},\n{\n\"text\": \"4\"}, {\"text\": \"5\"}\n]")
	all := need.Value(readAll([]string{lines, list}, ReadOptions{}))(t)
	var got []string
	for _, x := range all {
		got = append(got, fmt.Sprintf("%s %d %s", filepath.Base(x.File), x.Line, x.Text))
	}
	require.Equal(t, []string{"a.jsonl 2 1", "a.jsonl 4 2", "b.json 1 3", "b.json 2 4", "b.json 3 5"}, got)
}

func TestReadStdin(t *testing.T) {
	for content, want := range map[string]string{
		greeting:               shownGreeting,
		"\n[" + greeting + "]": shownGreeting,
		"Once upon a time":     `text "Once upon a time"`,
		gzipped(t, greeting):   shownGreeting,
	} {
		all := need.Value(readAll([]string{Stdin}, ReadOptions{Stdin: strings.NewReader(content)}))(t)
		require.Len(t, all, 1)
		require.Equal(t, want, shown(t, all[0]))
		require.Equal(t, "stdin", all[0].File)
	}
}

func TestReadRecords(t *testing.T) {
	path := write(t, "a.parquet", "anything")
	reader := func(name string) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			require.Equal(t, path, name)
			_ = yield([]byte(`{"text": "a"}`), nil) && yield([]byte(`{"text": "b"}`), nil) && yield(nil, io.ErrUnexpectedEOF)
		}
	}
	all, err := readAll([]string{path}, ReadOptions{Readers: map[string]RecordReader{".parquet": reader}})
	require.EqualError(t, err, path+": unexpected EOF")
	require.Len(t, all, 2)
	require.Equal(t, 2, all[1].Line)
}

// Reading stops when the consumer does, and a cancelled context is an error.
func TestReadStops(t *testing.T) {
	path := write(t, "a.jsonl", strings.Repeat("{\"text\": \"x\"}\n", 10))
	n := 0
	for _, err := range Read(context.Background(), []string{path, path}, ReadOptions{}) {
		require.NoError(t, err)
		if n++; n == 3 {
			break
		}
	}
	require.Equal(t, 3, n)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n = 0
	for _, err := range Read(ctx, []string{path}, ReadOptions{}) {
		if n++; n == 3 {
			cancel()
		}
		if n == 4 {
			require.ErrorIs(t, err, context.Canceled)
		}
	}
	require.Equal(t, 4, n)
}

func TestFolder(t *testing.T) {
	folder := t.TempDir()
	add := func(names ...string) {
		for _, name := range names {
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(greeting), 0o600))
		}
	}
	_, err := Folder(folder)
	require.EqualError(t, err, folder+": the folder has no train file: it is empty; name the file train.jsonl or train.parquet, or give the file instead of the folder")
	add("README.md", "trainer.jsonl", "train.arrow")
	_, err = Folder(folder)
	require.ErrorContains(t, err, "the folder has no train file: it has README.md, train.arrow, trainer.jsonl; name")
	add("train-00000-of-00002.parquet", "train-00001-of-00002.parquet", "Validation.jsonl.gz", "test.json")
	s := need.Value(Folder(folder))(t)
	in := func(names ...string) (paths []string) {
		for _, name := range names {
			paths = append(paths, filepath.Join(folder, name))
		}
		return paths
	}
	require.Equal(t, Splits{in("train-00000-of-00002.parquet", "train-00001-of-00002.parquet"), in("Validation.jsonl.gz"), in("test.json")}, s)
	add("train.jsonl")
	_, err = Folder(folder)
	require.EqualError(t, err, folder+": train-00000-of-00002.parquet and train.jsonl are both files of the same split; remove one of them, or name the files")
	require.NoError(t, os.Remove(s.Train[0]))
	require.NoError(t, os.Remove(s.Train[1]))
	all := need.Value(readAll([]string{folder, filepath.Join(folder, "te*.json")}, ReadOptions{}))(t)
	require.Len(t, all, 2)
	require.Equal(t, in("train.jsonl", "test.json"), []string{all[0].File, all[1].File})
}

func TestReadKey(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range []ReadOptions{{}, {Keys: map[string]string{"messages": "a"}}, {Keys: map[string]string{"messages": "b"}}, {Roles: map[string]string{"messages": "a"}},
		{MaxRecordBytes: 1}, {SkipBroken: &Broken{}}} {
		require.False(t, seen[o.Key()], o.Key())
		seen[o.Key()] = true
	}
}

// Lines may be longer than the buffer.
func TestLongLines(t *testing.T) {
	var content strings.Builder
	var lengths []int
	for _, n := range []int{-1, 0, 1, 2 * readBuffer, -2} { // near the length of the buffer
		n += readBuffer - len(`{"text": ""}`)
		lengths = append(lengths, n)
		fmt.Fprintf(&content, `{"text": "%s"}`+"\n", strings.Repeat("x", n))
	}
	all := need.Value(readAll([]string{write(t, "a.jsonl", strings.TrimSpace(content.String()))}, ReadOptions{}))(t)
	var got []int
	for i, x := range all {
		require.Equal(t, i+1, x.Line)
		got = append(got, len(x.Text))
	}
	require.Equal(t, lengths, got)
}

// BytesRead counts the compressed bytes of files.
func TestReadCountsBytes(t *testing.T) {
	folder := t.TempDir()
	path, size := filepath.Join(folder, "a.parquet"), int64(0)
	require.NoError(t, os.WriteFile(path, []byte("ten bytes!"), 0o600))
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for range 100 {
		_, err := z.Write([]byte(`{"text": "a text that is compressed"}` + "\n"))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	require.NoError(t, os.WriteFile(filepath.Join(folder, "b.jsonl.gz"), packed.Bytes(), 0o600))
	for _, name := range []string{path, filepath.Join(folder, "b.jsonl.gz")} {
		info := need.Value(os.Stat(name))(t)
		size += info.Size()
	}
	var count atomic.Int64
	o := ReadOptions{BytesRead: &count, Readers: map[string]RecordReader{".parquet": func(string) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) { yield([]byte(`{"text": "a"}`), nil) }
	}}}
	examples := 0
	for _, err := range Read(context.Background(), []string{path, filepath.Join(folder, "b.jsonl.gz")}, o) {
		require.NoError(t, err)
		examples++
	}
	require.Equal(t, 101, examples)
	require.Equal(t, size, count.Load())
}
