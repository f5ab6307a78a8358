package data

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/tokenizer"
)

// Files become a cached data set, encoded on all processors. Its samples equal the result of encoding
// one example after another, and broken records are counted.
func TestPrepareConversations(t *testing.T) {
	var lines strings.Builder
	for i := range 500 {
		fmt.Fprintf(&lines, `{"messages": [{"role": "user", "content": "U%d"}, {"role": "assistant", "content": "A%d"}]}`+"\n", i, i)
		switch i % 100 {
		case 3:
			lines.WriteString("{\n")
		case 7:
			lines.WriteString(`{"messages": [{"role": "user", "content": "U"}]}` + "\n")
		case 8:
			lines.WriteString(inMessages(`{"role": "assistant", "content": "A"}, {"role": "assistant", "content": "B"}`) + "\n")
		}
	}
	path := write(t, "a.jsonl", lines.String())
	tok := chatTokenizer(t, true)
	read := ReadOptions{SkipBroken: &Broken{}}
	encoder := newEncoder(t, tok, EncoderOptions{Template: parse(t, chatML), SkipBroken: read.SkipBroken})
	o := PrepareOptions{Length: 100, Cache: t.TempDir(), Key: encoder.Key() + read.Key()}
	var before []BrokenCount
	for _, fromCache := range []bool{false, true} {
		d, stats, err := Prepare(t.Context(), Read(t.Context(), []string{path}, read), encoder.Encode, o)
		require.NoError(t, err)
		require.Equal(t, fromCache, stats.FromCache)
		require.Equal(t, 500, stats.Samples)
		require.Equal(t, 510, stats.Examples, "all but those that cannot be read")
		require.Equal(t, 10, stats.Empty)
		for i := range 500 {
			row := need.Value(d.Row(i))(t)
			want := fmt.Sprintf("<s><|im_start|>user\nU%d<|im_end|>\n<|im_start|>assistant\n«A%d<|im_end|>»\n", i, i)
			require.Equal(t, want, FormatSample(tok, row[0], Marks{"«", "»"}))
		}
		require.NoError(t, d.Close())
		if !fromCache {
			before = read.SkipBroken.Counts()
		}
	}
	require.Equal(t, before, read.SkipBroken.Counts(), "what is in the cache is not read")
	for i, kind := range []Kind{TemplateFailed, NothingTrained, Truncated} {
		require.Equal(t, kind, before[i].Kind)
		require.Equal(t, 5, before[i].N)
	}
	require.Equal(t, []int{12, 10, 5}, []int{before[0].First.Line, before[1].First.Line, before[2].First.Line})

	_, _, err := Prepare(t.Context(), Read(t.Context(), []string{path}, ReadOptions{}), encoder.Encode, PrepareOptions{Length: 100})
	require.EqualError(t, err, path+":5:2: it ends where a key in quotes is expected; the file was cut off, or has a line end within an object: write each object in one line")
}

// A turn may end with a token of ordinary text, which RWKV's vocabulary escapes: the model learns to end there.
func TestTurnsEndWithText(t *testing.T) {
	c := need.Value(tokenizer.DefaultConfig(tokenizer.ModelRWKV, ""))(t)
	c.Tokens = []string{"<s>", `\n\n`}
	for b := range 256 {
		c.Tokens = append(c.Tokens, fmt.Sprintf(`\x%02x`, b))
	}
	c.Types = slices.Repeat([]tokenizer.TokenType{tokenizer.Normal}, len(c.Tokens))
	c.Types[0] = tokenizer.Control
	c.BOS, c.EOS, c.EOT = 0, 0, 1
	const template = `{{ bos_token }}{% for m in messages %}{{ 'User: ' if m.role == 'user' else 'Assistant: ' }}{{ m.content }}{{ '\n\n' }}{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}`
	tok := need.Value(tokenizer.New(c))(t)
	encoder := newEncoder(t, tok, EncoderOptions{Template: parse(t, template)})
	path := write(t, "a.jsonl", `{"messages": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "A"}, {"role": "user", "content": "V"}, {"role": "assistant", "content": "B"}]}`+"\n")
	d, _, err := Prepare(t.Context(), Read(t.Context(), []string{path}, ReadOptions{}), encoder.Encode, PrepareOptions{Length: 100})
	require.NoError(t, err)
	row := need.Value(d.Row(0))(t)
	require.Equal(t, "<s>User: U\n\nAssistant:« A\n\n»User: V\n\nAssistant:« B\n\n»", FormatSample(tok, row[0], Marks{"«", "»"}))
	require.NoError(t, d.Close())
}
