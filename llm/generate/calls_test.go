package generate

import (
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/chattest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/grammar"
	"github.com/goggml/ggml/llm/tokenizer"
)

// callTools have parameters of several types.
const (
	weatherSchema = `{"type": "object", "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["C", "F"]}, "days": {"type": "integer", "minimum": 1, "maximum": 30}, "more": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3}}, "required": ["city", "unit"], "additionalProperties": false}`
	timeSchema    = `{"type": "object", "properties": {}, "additionalProperties": false}`
	callTools     = `[{"type": "function", "function": {"name": "get_weather", "parameters": ` + weatherSchema + `}}, {"type": "function", "function": {"name": "get_time", "parameters": ` + timeSchema + `}}]`
)

// unwritten are forms whose calls cannot be forced.
var unwritten = []string{"Gemma 4", "LFM2"}

// byteVocabulary has all bytes and an end.
func byteVocabulary(t testing.TB, control ...string) *tokenizer.Tokenizer {
	c := need.Value(tokenizer.DefaultConfig(tokenizer.ModelSPM, "default"))(t)
	c.Tokens, c.Types = []string{"<unk>", "<s>", "</s>"}, []tokenizer.TokenType{tokenizer.Unknown, tokenizer.Control, tokenizer.Control}
	for _, text := range control {
		c.Tokens, c.Types = append(c.Tokens, text), append(c.Types, tokenizer.Control)
	}
	for b := range 256 {
		c.Tokens, c.Types = append(c.Tokens, "<0x"+strings.ToUpper(string("0123456789abcdef"[b/16])+string("0123456789abcdef"[b%16]))+">"), append(c.Types, tokenizer.Byte)
	}
	c.Scores = make([]float32, len(c.Tokens))
	c.Unknown, c.BOS, c.EOS = 0, 1, 2
	return need.Value(tokenizer.New(c))(t)
}

// callGrammar returns the grammar of a form's calls.
func callGrammar(t testing.TB, text chat.CallText, v *tokenizer.Tokenizer, name string, single bool) *grammar.Grammar {
	tools := need.Value(toolsOf(&chat.Conversation{Tools: []byte(callTools)}, name))(t)
	w := &callWriter{text: text, v: v}
	source := need.Value(w.write(tools, single))(t)
	g, err := grammar.Parse(source)
	require.NoError(t, err, source)
	return g
}

// Calls of each form: what its template renders has the grammar, and broken calls have not; what a random model writes by it is
// read back as calls whose arguments have the tools' schemas.
func TestForcedCalls(t *testing.T) {
	need.Time(t, "many constrained answers")
	v := byteVocabulary(t)
	schemas := map[string]*grammar.Grammar{"get_weather": need.Value(grammar.ParseJSONSchema([]byte(weatherSchema)))(t), "get_time": need.Value(grammar.ParseJSONSchema([]byte(timeSchema)))(t)}
	for _, name := range slices.Sorted(maps.Keys(chattest.CallTemplates)) {
		t.Run(name, func(t *testing.T) {
			template := need.Value(chat.Parse("test", chattest.CallTemplates[name]))(t)
			form := template.AnswerForm(nil)
			require.Equal(t, name, form.ToolCalls())
			text, known := form.CallText()
			require.Equal(t, !slices.Contains(unwritten, name), known)
			if !known {
				return
			}
			g := callGrammar(t, text, v, "", false)
			prompt := "<|assistant|>"
			if name == "Harmony" {
				prompt = "<|start|>assistant"
			}
			several, ends := 0, []string(nil)
			if text.Parameters != nil {
				ends = []string{text.Parameters.After, text.Between, text.End}
			}
			for seed := range uint64(25) {
				answer := randomText(t, g, v, seed, ends...)
				if answer == "" {
					continue // too long
				}
				require.True(t, need.Value(g.Match(answer))(t))
				r := form.NewReader(prompt, json.RawMessage(callTools))
				r.Write(answer)
				r.End()
				got := r.Answer()
				require.Empty(t, got.Text, "%q", answer)
				require.NotEmpty(t, got.Calls, "%q", answer)
				several += len(got.Calls) - 1
				for _, c := range got.Calls {
					require.Contains(t, schemas, c.Name, "%q", answer)
					require.True(t, json.Valid([]byte(c.Arguments)), "%q\n%s", answer, c.Arguments)
					if text.Parameters == nil {
						require.True(t, need.Value(schemas[c.Name].Match(c.Arguments))(t), "%q\n%s", answer, c.Arguments)
					}
					var arguments struct {
						City, Unit *string
						Days       *int
						More       []bool
					}
					require.NoError(t, json.Unmarshal([]byte(c.Arguments), &arguments), "%q\n%s", answer, c.Arguments)
					if c.Name == "get_weather" {
						require.NotNil(t, arguments.City)
						require.Contains(t, []string{"C", "F"}, *arguments.Unit)
						require.True(t, arguments.Days == nil || *arguments.Days >= 1 && *arguments.Days <= 30)
					}
				}
				require.False(t, need.Value(g.Match(strings.Replace(answer, got.Calls[0].Name, "other", 1)))(t))
				require.False(t, need.Value(g.Match("Text. "+answer))(t))
				require.False(t, need.Value(g.Match(answer[:strings.Index(answer, got.Calls[0].Name)+3]))(t))
			}
			assert.Equal(t, text.Between != "", several > 0)
			rendered := need.Value(renderedCalls(template))(t)
			if rendered != "" {
				requireRendered(t, g, rendered)
			}
			only := callGrammar(t, text, v, "get_time", true)
			for seed := range uint64(5) {
				r := form.NewReader(prompt, json.RawMessage(callTools))
				r.Write(randomText(t, only, v, seed))
				r.End()
				require.Len(t, r.Answer().Calls, 1)
				require.Equal(t, "get_time", r.Answer().Calls[0].Name)
			}
		})
	}
}

// renderedCalls returns what the template renders for an answer with two calls; "" if it renders none.
func renderedCalls(template *chat.Template) (string, error) {
	answer := chat.NewMessage("assistant", "")
	if err := answer.Set("tool_calls", json.RawMessage(`[{"id": "aB3456789", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Oslo <5>", "unit": "C", "days": 3}}},`+
		`{"id": "bB3456789", "type": "function", "function": {"name": "get_time", "arguments": {}}}]`)); err != nil {
		return "", err
	}
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "Q"), answer}, Tools: []byte(callTools)}
	rendered, err := template.Render(template.Forms(nil).Convert(talk), nil)
	if err != nil {
		return "", err
	}
	_, text, _ := strings.Cut(rendered.Text, "<|assistant|>")
	text, _, _ = strings.Cut(text, "<|end|>")
	if !strings.Contains(text, "get_weather") {
		return "", nil
	}
	return text, nil
}

// requireRendered requires a rendered text's grammar; white space at its end is the template's.
func requireRendered(t *testing.T, g *grammar.Grammar, text string) {
	t.Helper()
	require.True(t, need.Value(g.Match(strings.TrimRight(text, "\n ")))(t), "%q", text)
}

// randomText returns a text of random bytes that ends as soon as it may; "" if it gets too long. Now and then it goes on as far as
// the grammar allows by one of some ends, which random bytes would not write.
func randomText(t *testing.T, g *grammar.Grammar, v *tokenizer.Tokenizer, seed uint64, ends ...string) string {
	rng := rand.New(rand.NewPCG(seed, 1))
	m := need.Value(g.NewMatcher(v))(t)
	text := ""
	for !m.CanEnd() || rng.IntN(3) == 0 && !m.MustEnd() {
		if len(ends) > 0 && rng.IntN(8) == 0 {
			for _, b := range []byte(ends[rng.IntN(len(ends))]) {
				if id := 3 + int32(b); need.Value(m.Allows(id))(t) {
					require.NoError(t, m.Accept(id))
					text += string([]byte{b})
				} else {
					break
				}
			}
			continue
		}
		logits := make([]float32, v.NumTokens())
		require.NoError(t, m.Mask(logits))
		var ids []int32
		for id, l := range logits {
			printable := id >= 3+' ' && id < 3+0x7F || id == 3+'\n' || id < 3
			if !math.IsInf(float64(l), -1) && (printable || rng.IntN(20) == 0) && id > 2 {
				ids = append(ids, int32(id))
			}
		}
		if len(ids) == 0 {
			continue
		}
		id := ids[rng.IntN(len(ids))]
		require.NoError(t, m.Accept(id))
		if text += string(v.Piece(id)); len(text) > 3000 {
			return ""
		}
	}
	return text
}

// Marks that are control tokens of the vocabulary are written as tokens, and a token that ends the answer ends the grammar.
func TestForcedCallsWithControlTokens(t *testing.T) {
	v := byteVocabulary(t, "<tool_call>", "</tool_call>")
	text, _ := need.Value(chat.Parse("test", chattest.CallTemplates["Hermes"]))(t).AnswerForm(nil).CallText()
	m := need.Value(callGrammar(t, text, v, "get_time", true).NewMatcher(v))(t)
	require.False(t, need.Value(m.Allows(5+'<'))(t))
	require.NoError(t, m.Accept(3))
	require.NoError(t, m.AcceptText("\n"+`{"name": "get_time", "arguments": {}}`+"\n"))
	require.False(t, m.CanEnd())
	require.NoError(t, m.Accept(4))
	require.True(t, m.MustEnd())
}
