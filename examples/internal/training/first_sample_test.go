package training

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/instructtest"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/tokenizer"
)

// Of long stretches the ends are shown, of long samples the beginning, and nothing of the
// data moves the cursor.
func TestFirstSample(t *testing.T) {
	v := instructtest.Vocabulary(t)
	show := func(turns ...string) string {
		var s data.Sample
		for i, turn := range turns {
			ids := v.Encode(turn, tokenizer.EncodeOptions{})
			s.Tokens = append(s.Tokens, ids...)
			for range ids {
				s.Weights = append(s.Weights, float32(i%2))
			}
		}
		s.Weights = s.Weights[1:]
		var out strings.Builder
		require.NoError(t, showFirst(&out, v, data.New(len(s.Tokens), []data.Sample{s})))
		text, ok := strings.CutPrefix(out.String(), "the first sample, trained where it is in «»:\n")
		require.True(t, ok, out.String())
		return text
	}
	require.Equal(t, "ab«cd»ef«gh»\n", show("ab", "cd", "ef", "gh"))
	long := show(strings.Repeat("a", 500), strings.Repeat("b", 500), "c")
	require.Equal(t, strings.Repeat("a", 80)+"…"+strings.Repeat("a", 80)+"«"+strings.Repeat("b", 79)+"…"+strings.Repeat("b", 80)+"»c\n", long)
	var turns []string
	for range 400 {
		turns = append(turns, "user", "model")
	}
	many := show(turns...)
	require.LessOrEqual(t, len([]rune(many)), shownOfSample+10)
	require.True(t, strings.HasPrefix(many, "user«model»user«model»") && strings.HasSuffix(many, "…\n"), many)
	require.Equal(t, "a\ufffd[2Jb\n\tc", printable("a\x1b[2Jb\n\tc"))
}
