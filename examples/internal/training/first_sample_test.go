package training

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/instructtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/tokenizer"
)

// The preview shows the ends of long words, and all mark-up between them, whether it consists of special tokens
// or not.
func TestFirstSampleKeepsMarkup(t *testing.T) {
	v := instructtest.Vocabulary(t)
	a, b, c := strings.Repeat("a", 257), strings.Repeat("b", 500), strings.Repeat("c", 160)
	folder := t.TempDir()
	in := func(name, text string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	const template = `{% for m in messages %}[[a header of more than a hundred and sixty characters, which is mark-up of the template and so is never shortened, whatever else becomes of the sample: it is where faults are seen]] {{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}`
	long := `{"messages": [{"role": "user", "content": "` + strings.Repeat("x", 3000) + `"}, {"role": "assistant", "content": "y"}]}` + "\n"
	record := `{"messages": [{"role": "system", "content": "` + a + `"}, {"role": "user", "content": "` + c + `"}, {"role": "assistant", "content": "` + b + `"}]}` + "\n"
	own := need.Value(chat.Parse("own.jinja", template))(t)
	o := data.LoadOptions{Length: 2000, TooLong: data.DropLong, Encode: data.EncoderOptions{Template: own}}
	d := need.Value(data.Load(t.Context(), v, []string{in("chat.jsonl", long+record)}, o))(t)
	defer d.Close()
	var out strings.Builder
	require.NoError(t, showFirst(&out, v, d.Data))
	header := template[strings.Index(template, "[["):strings.Index(template, "{{ m.role")]
	half := func(c string) string { return strings.Repeat(c, 80) }
	require.Equal(t, "the first sample, "+filepath.Join(folder, "chat.jsonl")+":2, trained parts in «»:\n"+
		header+"system: "+half("a")+"… (97 characters left out) …"+half("a")+"<|end|>"+
		header+"user: "+c+"<|end|>"+
		header+"assistant: «"+half("b")+"… (340 characters left out) …"+half("b")+"<|end|>»\n", out.String())

	// Standard input is read once, and shown as well.
	o.Read.Stdin = strings.NewReader(long + record)
	once := need.Value(data.Load(t.Context(), v, []string{data.Stdin}, o))(t)
	defer once.Close()
	shown := strings.Replace(out.String(), filepath.Join(folder, "chat.jsonl"), "stdin", 1)
	out.Reset()
	require.NoError(t, showFirst(&out, v, once.Data))
	require.Equal(t, shown, out.String())
}

// The preview shows the first of many turns, and no control character of the data.
func TestFirstSampleIsBounded(t *testing.T) {
	v := instructtest.Vocabulary(t)
	show := func(turns ...string) string {
		var s data.Sample
		for i, turn := range turns {
			ids := v.Encode(turn, tokenizer.EncodeOptions{})
			s.Tokens = append(s.Tokens, ids...)
			for range ids {
				s.LossWeights = append(s.LossWeights, float32(i%2))
			}
		}
		s.LossWeights = s.LossWeights[1:]
		return Preview(v, s)
	}
	require.Equal(t, "ab«cd»ef«gh»", show("ab", "cd", "ef", "gh"))
	var turns []string
	for range 400 {
		turns = append(turns, "user", "model")
	}
	many := show(turns...)
	require.LessOrEqual(t, len([]rune(many)), 2*shownOfSample)
	require.True(t, strings.HasPrefix(many, "user«model»user«model»"), many)
	require.Regexp(t, `(user|«model»)… \(\d+ tokens left out\)$`, many)
	require.Equal(t, "a\ufffd[2Jb\n\tc", printable("a\x1b[2Jb\n\tc"))
}
