package grammar

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/tokenizer"
)

// vocabulary has all bytes, tokens of several characters and of parts of them, and control tokens.
func vocabulary(t testing.TB, more ...string) *tokenizer.Tokenizer {
	c := need.Value(tokenizer.DefaultConfig(tokenizer.ModelSPM, "default"))(t)
	c.Tokens, c.Types = []string{"<unk>", "<s>", "</s>", "<|tool|>"}, []tokenizer.TokenType{tokenizer.Unknown, tokenizer.Control, tokenizer.Control, tokenizer.Control}
	for b := range 256 {
		c.Tokens, c.Types = append(c.Tokens, "<0x"+strings.ToUpper(string("0123456789abcdef"[b/16])+string("0123456789abcdef"[b%16]))+">"), append(c.Types, tokenizer.Byte)
	}
	for _, text := range append([]string{"{", "}", "\"", "\":", "{\"", ",", ",\"", "true", "false", "null", "1", "12", "ab", "a", "b", "é", "▁", "▁▁", "\\", "é\""}, more...) {
		c.Tokens, c.Types = append(c.Tokens, text), append(c.Types, tokenizer.Normal)
	}
	c.Scores = make([]float32, len(c.Tokens))
	c.Unknown, c.BOS, c.EOS = 0, 1, 2
	return need.Value(tokenizer.New(c))(t)
}

// allowed returns the tokens that a mask leaves.
func allowed(t testing.TB, m *Matcher, v *tokenizer.Tokenizer) (ids []int32) {
	logits := make([]float32, v.NumTokens())
	require.NoError(t, m.Mask(logits))
	for id, l := range logits {
		if !math.IsInf(float64(l), -1) {
			ids = append(ids, int32(id))
		}
	}
	return ids
}

// Random texts of allowed tokens stay in the grammar: each mask allows exactly the tokens after which the text can be continued
// by bytes, and whole texts match.
func TestMask(t *testing.T) {
	v := vocabulary(t)
	for _, source := range []string{
		need.Value(JSONSchema([]byte(`{"properties": {"a": {"type": "string"}, "b": {"items": {"type": ["integer", "boolean"]}}}, "additionalProperties": true}`)))(t),
		need.Value(JSONSchema([]byte(`true`)))(t),
		`root ::= [a-zé€😀]{2,} | "a" [^é] .*`,
	} {
		g := need.Value(Parse(source))(t)
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 0))
			m := need.Value(g.NewMatcher(v))(t)
			text := ""
			for range 30 {
				ids := allowed(t, m, v)
				for id := range int32(v.NumTokens()) {
					require.Equal(t, slices.Contains(ids, id), need.Value(m.Allows(id))(t), "token %d after %q", id, text)
				}
				require.Equal(t, need.Value(g.Match(text))(t), slices.Contains(ids, 2), "%q", text)
				require.Equal(t, slices.Contains(ids, 2), m.CanEnd())
				require.Equal(t, slices.Equal(ids, []int32{2}), m.MustEnd())
				id := ids[rng.IntN(len(ids))]
				require.NoError(t, m.Accept(id))
				if id == 2 {
					break
				}
				text += string(v.Piece(id))
			}
		}
	}
}

// A model that writes JSON for as long as it must, and ends as soon as it may, writes JSON.
func TestMaskedTextIsJSON(t *testing.T) {
	v := vocabulary(t)
	g := need.Value(ParseJSONSchema([]byte(`{"properties": {"é": {"enum": ["a", null]}, "b": {"type": "number"}, "c": {"type": "array", "maxItems": 2}}, "required": ["é", "c"]}`)))(t)
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		m := need.Value(g.NewMatcher(v))(t)
		text := ""
		for !m.CanEnd() {
			ids := allowed(t, m, v)
			id := ids[rng.IntN(len(ids))]
			require.NoError(t, m.Accept(id))
			text += string(v.Piece(id))
			if len(text) > 2000 { // strings in strings
				break
			}
		}
		require.True(t, !m.CanEnd() || json.Valid([]byte(text)), "%q", text)
	}
}

func TestTokensOfGrammars(t *testing.T) {
	v := vocabulary(t)
	m := need.Value(need.Value(Parse(`root ::= <|tool|> "ab" !<[2]> <[1]>* "b"?`))(t).NewMatcher(v))(t)
	const call = 3
	a, _ := v.TokenID("a")
	ab, _ := v.TokenID("ab")
	b, _ := v.TokenID("b")
	require.Equal(t, []int32{call}, allowed(t, m, v))
	require.NoError(t, m.Accept(call))
	require.True(t, need.Value(m.Allows(a))(t))
	require.NoError(t, m.Accept(ab))
	require.Len(t, allowed(t, m, v), v.NumTokens()-1)
	require.NoError(t, m.Accept(0))
	require.NoError(t, m.Accept(1))
	ids := allowed(t, m, v)
	require.Equal(t, []int32{1, 2, 4 + 'b', b}, ids)
	require.EqualError(t, m.Accept(a), `grammar: token 273 ("a") cannot come here`)
	require.NoError(t, m.Accept(b))
	require.True(t, m.MustEnd())
	require.NoError(t, m.Accept(2))

	_, err := need.Value(Parse(`root ::= <none>`))(t).NewMatcher(v)
	require.EqualError(t, err, "the grammar does not fit the vocabulary: <none> is not a single token")
	_, err = need.Value(Parse(`root ::= <[9999]>`))(t).NewMatcher(v)
	require.EqualError(t, err, "the grammar does not fit the vocabulary: there is no token 9999 among its 280")
	m = need.Value(need.Value(Parse(`root ::= "a"`))(t).NewMatcher(v, 1))(t)
	require.EqualError(t, m.Accept(1), "grammar: the text cannot end here")
	require.NoError(t, m.Accept(a))
	require.Equal(t, []int32{1, 2}, allowed(t, m, v))
}

// A matcher that drops its cache gives the same results.
func TestMachineForgets(t *testing.T) {
	m, at, err := newMachine(need.Value(Parse(`root ::= "[" root? "]" | "a"{1,9}`))(t).a)
	require.NoError(t, err)
	n := keptItems + 1000
	for i := range 2 * n {
		b := byte('[')
		if i >= n {
			b = ']'
		}
		at, err = m.step(m.begin(at), b)
		require.NoError(t, err)
		require.NotEqual(t, int32(dead), at)
	}
	require.True(t, m.configs[at].ends)
	require.Less(t, m.items+len(m.stacks), 4*n)
}

// BenchmarkMask masks a vocabulary of 150,000 tokens inside a string, which allows nearly all, and before one.
func BenchmarkMask(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	words := map[string]bool{}
	for len(words) < 150_000 {
		word := make([]byte, 1+rng.IntN(10))
		for i := range word {
			word[i] = byte('a' + min(rng.IntN(26), rng.IntN(26)))
		}
		words["▁"+string(word)] = true
	}
	var list []string
	for word := range words {
		list = append(list, word)
	}
	slices.Sort(list)
	v := vocabulary(b, list...)
	v.Trie()
	g := need.Value(ParseJSONSchema([]byte(`{"properties": {"a": {"type": "string"}}, "required": ["a"]}`)))(b)
	logits := make([]float32, v.NumTokens())
	for name, text := range map[string]string{"string": `{"a":"`, "structure": `{`} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				m := need.Value(g.NewMatcher(v))(b)
				for _, c := range []byte(text) {
					require.NoError(b, m.Accept(4+int32(c)))
				}
				require.NoError(b, m.Mask(logits))
			}
		})
	}
}
