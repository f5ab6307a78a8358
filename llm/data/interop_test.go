//go:build interop

package data

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/chattest"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/tokenizer"
)

// templateTokenizer returns a tokenizer with the tokens that a template writes, which merges pairs of
// letters as models do.
func templateTokenizer(t *testing.T, source string, conversations []chattest.Conversation) *tokenizer.Tokenizer {
	special := llmtest.MarkupTokens(source, "<s>", "</s>", "<unk>", "<pad>")
	texts := []string{source}
	for _, c := range conversations {
		for _, m := range c.Messages {
			texts = append(texts, m.Content())
		}
	}
	c := need.Value(tokenizer.TrainBPE(slices.Values(texts), tokenizer.TrainOptions{VocabSize: 400 + len(special), Special: special, BOS: "<s>", EOS: "</s>", Pre: "qwen2", MinCount: 2}))(t)
	return need.Value(tokenizer.New(c))(t)
}

func readTemplate(t *testing.T, path string) *chat.Template {
	source := need.Value(os.ReadFile(path))(t)
	return need.Value(chat.Parse(filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path), string(source)))(t)
}

// interopEncoder returns an encoder with chattest's variables.
func interopEncoder(t *testing.T, template *chat.Template, all []chattest.Conversation) *Encoder {
	e := newEncoder(t, templateTokenizer(t, template.Source(), all), EncoderOptions{Template: template, Now: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC),
		Variables: map[string]any{"unk_token": "<unk>", "pad_token": "<pad>"}})
	return e
}

// tokenRanges returns the byte range of each token of a sample, except BOS; the vocabulary has a token
// per byte.
func tokenRanges(tok *tokenizer.Tokenizer, s Sample) [][2]int {
	var ranges [][2]int
	at := 0
	for _, id := range s.Tokens {
		from := at
		at += len(tok.Piece(id))
		ranges = append(ranges, [2]int{from, at})
	}
	return ranges
}

var otherWords = regexp.MustCompile(`\b[USTDC][0-9] `)

// demanding names conversations whose answers have parts that many templates omit; only these may be
// rejected.
var demanding = []string{"tool call", "tool call without content", "tool call with words", "tool call as text", "two tool calls", "null content", "reasoning", "reasoning in content"}

// TestInteropMasks checks, for all templates, that no trained token contains a byte from anyone but
// the assistant, and that some tokens are trained.
func TestInteropMasks(t *testing.T) {
	all := chattest.Conversations(t)
	paths := chattest.Templates(t)
	encoded, tokens, trained := 0, 0, 0
	refused := map[string]int{}
	for _, path := range paths {
		template := readTemplate(t, path)
		e := interopEncoder(t, template, all)
		for _, c := range all {
			x := Example{Format: Messages, Conversation: c.Conversation}
			r, err := e.Render(x)
			if err != nil {
				continue // the template rejects the conversation, as llm/chat's tests check
			}
			where := filepath.Base(path) + ", " + c.Name
			s, err := e.Encode(x)
			hasAssistant := slices.ContainsFunc(c.Messages, func(m chat.Message) bool { return m.Role() == "assistant" })
			if at := (*Error)(nil); errors.As(err, &at) && at.Kind == Unrendered {
				refused[c.Name]++
				assert.Contains(t, demanding, c.Name, "%s: %v", where, err)
				segments, ranges := closed(r, r.Trained(chat.Assistant))
				s, err = e.sample(segments, ranges, r), nil
			}
			if err != nil {
				require.ErrorContains(t, err, "no token is trained", where)
				assert.False(t, hasAssistant && len(r.Trained(chat.Assistant)) > 0, "%s: %v", where, err)
				continue
			}
			require.True(t, hasAssistant, where)
			encoded++
			tokens += len(s.Tokens)
			trained += s.Targets()
			ranges := tokenRanges(e.t, s)
			text := r.Text + r.OpenEnd()
			require.Equal(t, len(text), ranges[len(ranges)-1][1], where)
			chunk := ""
			for i, at := range ranges {
				if i == 0 || s.LossWeights[i-1] == 0 {
					chunk = ""
					continue
				}
				chunk += text[at[0]:at[1]]
				assert.Empty(t, otherWords.FindString(chunk), "%s: %q is trained", where, chunk)
				for _, span := range r.Spans {
					if span.Source == chat.Content && span.Message >= 0 && span.From < at[1] && span.To > at[0] {
						assert.Equal(t, "assistant", c.Messages[span.Message].Role(), "%s: %q is trained", where, r.Text[at[0]:at[1]])
					}
				}
			}
		}
	}
	require.Greater(t, encoded, 600)
	t.Logf("%d templates, %d samples: %d of %d tokens are trained; refused are %v", len(paths), encoded, trained, tokens, refused)
}

// TestInteropGenerationTags compares trained tokens with transformers' for templates that mark the
// assistant's text by tags: a token is trained if one of its bytes is.
func TestInteropGenerationTags(t *testing.T) {
	all := chattest.Conversations(t)
	encoders := map[string]*Encoder{}
	var tagged []string
	for _, path := range chattest.Templates(t) {
		if template := readTemplate(t, path); template.HasGenerationTag() {
			encoders[path] = interopEncoder(t, template, all)
			tagged = append(tagged, path)
		}
	}
	equal, converted := 0, map[string]int{}
	for _, want := range chattest.Render(t, tagged) {
		if want.Setting != 0 || want.Error != "" {
			continue
		}
		e := encoders[want.Template]
		c := all[want.Conversation]
		where := fmt.Sprintf("%s, %s", filepath.Base(want.Template), c.Name)
		x := Example{Format: Messages, Conversation: c.Conversation}
		r, err := e.Render(x)
		require.NoError(t, err, where)
		if r.Text != want.Text {
			converted[c.Name]++ // the template takes another form of contents or arguments
			continue
		}
		s := e.sample(segmentsOf(r), r.Trained(chat.Assistant), r)
		var got, expected []bool
		for i, at := range tokenRanges(e.t, s) {
			marked := slices.ContainsFunc(want.Generated, func(g [2]int) bool { return g[0] < at[1] && g[1] > at[0] })
			expected = append(expected, marked && i > 0)
			got = append(got, i > 0 && s.LossWeights[i-1] > 0)
		}
		require.Equal(t, len(want.Text), tokenRanges(e.t, s)[len(got)-1][1], where)
		assert.Equal(t, expected, got, where)
		equal++
	}
	require.Greater(t, len(encoders), 10)
	require.Greater(t, equal, 200)
	t.Logf("%d templates with generation tags, %d samples; converted: %v", len(encoders), equal, converted)
}

// TestInteropInspect checks that valid conversations have no finding that ruins training, with any
// published template that accepts them, except empty reasoning blocks, which some write. Generation
// stops at the tokens by which the template ends answers, as with the model's vocabulary. Templates
// that end answers without a token of this test's vocabulary are omitted.
func TestInteropInspect(t *testing.T) {
	in := inFolder(t, map[string]string{"a.jsonl": talks(0, 30) + talks(40, 2), "held.jsonl": talks(900, 5)})
	sound, leftOut := 0, 0
	for _, path := range chattest.Templates(t) {
		source := readTemplate(t, path).Source()
		c := templateTokenizer(t, source, chattest.Conversations(t)).Config()
		c.ChatTemplate = source
		inspect := func() *Inspection {
			v := need.Value(tokenizer.New(c))(t)
			o := InspectOptions{LoadOptions: LoadOptions{Length: 4096, Encode: EncoderOptions{Now: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)}}, Held: []string{in("held.jsonl")}}
			i, err := Inspect(t.Context(), v, []string{in("a.jsonl")}, o)
			require.NoError(t, err, path)
			return i
		}
		i := inspect()
		if ends := i.NotesOf(ForeignEnd); ends != nil {
			c.ExtraEOG = append(c.ExtraEOG, tokenizer.ID(slices.Index(c.Tokens, ends[0].What)))
			i = inspect()
		}
		if i.NotesOf(OpenAnswer) != nil || slices.ContainsFunc(i.Findings, func(f Finding) bool { return f.Name == faultyRecords }) {
			leftOut++
			continue
		}
		if !i.Ruined("empty-reasoning") {
			sound++
			continue
		}
		t.Errorf("%s: %v", path, i.Findings)
	}
	t.Logf("%d templates are sound, %d are left out", sound, leftOut)
	require.Greater(t, sound, 100)
}
