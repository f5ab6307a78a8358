package data

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// Words are the text of messages, without mark-up of the template and special tokens. Only conversations have them.
func TestWords(t *testing.T) {
	const turns = `{"messages": [{"role": "user", "content": "U V"}, {"role": "assistant", "content": "A"}]}`
	for _, c := range []struct{ line, template, want string }{
		{turns, chatML, "U VA"},
		{turns, "A system prompt of the template. {% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", "U VA"},
		{`{"prompt": "P", "completion": "C<|im_end|>"}`, "", ""},
		{`{"instruction": "<s>U", "output": "A"}`, chatML, "<s>UA"},
		{`{"text": "<s>T</s>"}`, "", ""},
	} {
		tok := chatTokenizer(t, true)
		o := EncoderOptions{Template: parse(t, c.template)}
		e := newEncoder(t, tok, o)
		x := example(t, c.line)
		s := need.Value(e.Encode(x))(t)
		var b strings.Builder
		for i, isWord := range s.Words {
			if isWord {
				b.Write(tok.Piece(s.Tokens[i]))
			}
		}
		require.Equal(t, c.want, b.String(), c.line)
	}
}
