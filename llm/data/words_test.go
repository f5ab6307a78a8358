package data

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Words marks the text of records, without mark-up of the template and special tokens.
func TestWords(t *testing.T) {
	const turns = `{"messages": [{"role": "user", "content": "U V"}, {"role": "assistant", "content": "A"}]}`
	for _, c := range []struct{ line, template, want string }{
		{turns, chatML, "U VA"},
		{turns, "A system prompt of the template. {% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", "U VA"},
		{`{"prompt": "P", "completion": "C<|im_end|>"}`, "", "PC"},
		{`{"instruction": "<s>U", "output": "A"}`, chatML, "<s>UA"},
		{`{"text": "<s>T</s>"}`, "", "T"},
	} {
		tok := chatTokenizer(t, true)
		o := EncoderOptions{Template: parse(t, c.template)}
		e := newEncoder(t, tok, o)
		x := example(t, c.line)
		s, err := e.Encode(x)
		require.NoError(t, err)
		words, err := e.Words(x)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(words), len(s.Tokens)-1, "all but an EOS that Encode adds")
		var b strings.Builder
		for i, isWord := range words {
			if isWord {
				b.Write(tok.Piece(s.Tokens[i]))
			}
		}
		require.Equal(t, c.want, b.String(), c.line)
	}
}
