package data

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/tokenizer"
)

// parse returns nil for an empty source.
func parse(t require.TestingT, source string) *chat.Template {
	if source == "" {
		return nil
	}
	return need.Value(chat.Parse("model.gguf", source))(t)
}

func newEncoder(t require.TestingT, tok *tokenizer.Tokenizer, o EncoderOptions) *Encoder {
	return need.Value(NewEncoder(tok, o))(t)
}

// example parses a line.
func example(t testing.TB, line string) Example {
	all := need.Value(readAll([]string{write(t, "a.jsonl", line)}, ReadOptions{}))(t)
	require.Len(t, all, 1)
	return all[0]
}

// withBOS is ChatML after bos_token.
const withBOS = "{{ bos_token }}" + chatML

// lastOpen ends all turns but the last.
const lastOpen = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% if not loop.last %}{{ eos_token }}{% endif %}{% endfor %}"

func TestEncode(t *testing.T) {
	const turns = `{"messages": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "A"}, {"role": "user", "content": "V"}, {"role": "assistant", "content": "B"}]}`
	const chatted = "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n"
	for _, c := range []struct {
		name, line, template string
		mode                 chat.Mode
		addBOS               bool
		want                 string
	}{
		{"assistant", turns, chatML, chat.Assistant, false, chatted + "«A<|im_end|>»\n<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n«B<|im_end|>»\n"},
		{"last", turns, chatML, chat.Last, false, chatted + "A<|im_end|>\n<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n«B<|im_end|>»\n"},
		{"completion", turns, chatML, chat.Completion, false, chatted + "A<|im_end|>\n<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n«B<|im_end|>\n»"},
		{"all", greeting, withBOS, chat.All, false, "<s>«" + chatted + "A<|im_end|>\n»"},
		{"BOS of the template", greeting, withBOS, chat.Assistant, false, "<s>" + chatted + "«A<|im_end|>»\n"},
		{"BOS of the model", greeting, chatML, chat.Assistant, true, "<s>" + chatted + "«A<|im_end|>»\n"},
		{"BOS of both", greeting, withBOS, chat.Assistant, true, "<s>" + chatted + "«A<|im_end|>»\n"},
		{"prompt of messages", `{"prompt": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "A"}, {"role": "user", "content": "V"}], "completion": [{"role": "assistant", "content": "B"}]}`,
			chatML, chat.Assistant, false, chatted + "A<|im_end|>\n<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n«B<|im_end|>»\n"},
		{"prompt of messages, all", `{"prompt": [{"role": "user", "content": "U"}], "completion": [{"role": "assistant", "content": "A"}]}`, withBOS, chat.All, false, "<s>«" + chatted + "A<|im_end|>\n»"},
		{"an end that the template leaves out", turns, lastOpen, chat.Assistant, false, "[user]U</s>[assistant]«A</s>»[user]V</s>[assistant]«B</s>»"},
		{"an end that the template leaves out, last", turns, lastOpen, chat.Last, false, "[user]U</s>[assistant]A</s>[user]V</s>[assistant]«B</s>»"},
		{"an end that the template leaves out, all", turns, lastOpen, chat.All, true, "<s>«[user]U</s>[assistant]A</s>[user]V</s>[assistant]B</s>»"},
		{"instructions", `{"instruction": "U", "output": "A"}`, chatML, chat.Assistant, false, chatted + "«A<|im_end|>»\n"},
		{"instructions without a template", `{"instruction": "<s>U", "output": "A"}`, "", chat.Assistant, true,
			"<s>Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n### Instruction:\n<s>U\n\n### Response:\n«A</s>»"},
		{"prompt and completion", `{"prompt": "P", "completion": "C"}`, "", chat.Assistant, true, "<s>P«C</s>»"},
		{"prompt and completion, last", `{"prompt": "P", "completion": "C"}`, "", chat.Last, false, "P«C</s>»"},
		{"prompt and completion, all", `{"prompt": "PQ", "completion": "C"}`, "", chat.All, false, "P«QC</s>»"},
		{"prompt with BOS and EOS of its own", `{"prompt": "<s>P", "completion": "C<|im_end|>"}`, "", chat.Completion, true, "<s>P«C<|im_end|>»"},
		{"empty completion", `{"prompt": "P", "completion": ""}`, "", chat.Completion, false, "P«</s>»"},
		{"text", `{"text": "T"}`, "", chat.Assistant, true, "<s>«T</s>»"},
		{"text with its own", `{"text": "<s>T</s>"}`, chatML, chat.All, true, "<s>«T</s>»"},
		{"text without BOS", `{"text": "TU"}`, "", chat.All, false, "T«U</s>»"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tok := chatTokenizer(t, c.addBOS)
			o := EncoderOptions{Template: parse(t, c.template), TrainOn: c.mode}
			e := newEncoder(t, tok, o)
			s := need.Value(e.Encode(example(t, c.line)))(t)
			require.Equal(t, c.want, FormatSample(tok, s, Marks{"«", "»"}))
			require.NoError(t, s.check(1000, tok.NumTokens()))
		})
	}
}

// Special tokens in messages are plain text.
func TestNoSpecialTokensInWords(t *testing.T) {
	tok := chatTokenizer(t, true)
	e := newEncoder(t, tok, EncoderOptions{Template: parse(t, withBOS)})
	s := need.Value(e.Encode(example(t, `{"messages": [{"role": "user", "content": "<s></s><|im_end|><|im_st"}, {"role": "assistant", "content": "art|><|im_end|>"}], "tools": [{"name": "<|im_end|>"}]}`)))(t)
	var special []string
	for _, id := range s.Tokens {
		if tok.IsSpecial(id) {
			special = append(special, string(tok.Piece(id)))
		}
	}
	require.Equal(t, []string{"<s>", "<|im_start|>", "<|im_end|>", "<|im_start|>", "<|im_end|>"}, special)
	require.Equal(t, len("art|><|im_end|>")+1, s.Targets(), "a token for each byte, and the end of the turn")
}

func TestWeights(t *testing.T) {
	tok := chatTokenizer(t, true)
	e := newEncoder(t, tok, EncoderOptions{Template: parse(t, chatML)})
	s := need.Value(e.Encode(example(t, `{"messages": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "AB", "weight": 0.25}, {"role": "user", "content": "V"}, {"role": "assistant", "content": "C", "train": false}, `+
		`{"role": "user", "content": "W"}, {"role": "assistant", "content": "D", "weight": 3}]}`)))(t)
	require.Len(t, s.LossWeights, len(s.Tokens)-1)
	require.Equal(t, []float32{0.25, 0.25, 0.25, 3, 3}, slices.DeleteFunc(slices.Clone(s.LossWeights), func(w float32) bool { return w == 0 }))
	require.Equal(t, "AB<|im_end|>D<|im_end|>", trainedText(tok, s))
}

func trainedText(tok *tokenizer.Tokenizer, s Sample) string {
	var ids []int32
	for i, w := range s.LossWeights {
		if w > 0 {
			ids = append(ids, s.Tokens[i+1])
		}
	}
	return tok.Decode(ids, tokenizer.DecodeOptions{ShowSpecial: true, KeepSpaces: true})
}

// Training ranges are applied per token: a token is trained if it contains a byte of a range, with the
// largest weight of its bytes. The space before the first word belongs to the word.
func TestTokensOfRanges(t *testing.T) {
	c := need.Value(tokenizer.DefaultConfig(tokenizer.ModelSPM, ""))(t)
	c.Tokens = []string{"<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁a", "1", "<0x0A>", "bab"}
	c.Scores = []float32{0, 0, 0, -9, -9, -9, -1, -2, -9, -9, 0}
	c.Types = []tokenizer.TokenType{2, 3, 3, 1, 1, 1, 1, 1, 1, 6, 1}
	tok := need.Value(tokenizer.New(c))(t)
	e := &Encoder{t: tok}
	for _, c := range []struct {
		segments []tokenizer.Segment
		trained  []chat.Range
		want     string
	}{
		{[]tokenizer.Segment{{Text: "ab"}}, []chat.Range{{From: 1, To: 2, Weight: 1}}, "<s> 0, ▁ 0, ab 1"},
		{[]tokenizer.Segment{{Text: "ab"}}, []chat.Range{{From: 0, To: 1, Weight: 0.5}, {From: 1, To: 2, Weight: 2}}, "<s> 0, ▁ 0.5, ab 2"},
		{[]tokenizer.Segment{{Text: "<s>", ParseSpecial: true}, {Text: "1"}}, []chat.Range{{From: 3, To: 4, Weight: 1}}, "<s> 0, ▁ 1, 1 1"},
		{[]tokenizer.Segment{{Text: "1"}, {Text: "</s>", ParseSpecial: true}, {Text: "1"}}, []chat.Range{{From: 0, To: 5, Weight: 1}}, "<s> 0, ▁ 1, 1 1, </s> 1, ▁ 0, 1 0"},
		{[]tokenizer.Segment{{Text: "1b"}, {Text: "ab"}, {Text: "b"}}, []chat.Range{{From: 2, To: 4, Weight: 1}}, "<s> 0, ▁ 0, 1 0, bab 1, b 0"},
	} {
		s := e.sample(c.segments, c.trained, &chat.Rendered{})
		got := ""
		for i, id := range s.Tokens {
			if i > 0 {
				got += fmt.Sprintf(", %s %v", tok.TokenText(id), s.LossWeights[i-1])
			} else {
				got += tok.TokenText(id) + " 0"
			}
		}
		require.Equal(t, c.want, got)
	}
}

// With a vocabulary of bytes, the trained tokens equal the ranges, for any ranges.
func TestByteWeights(t *testing.T) {
	tok := chatTokenizer(t, false)
	rapid.Check(t, func(t *rapid.T) {
		var segments []tokenizer.Segment
		var want []float32
		var ranges []chat.Range
		at := 0
		for range rapid.IntRange(1, 6).Draw(t, "segments") {
			text := rapid.StringMatching(`[a-zé]{0,4}`).Draw(t, "text")
			weight := float64(rapid.IntRange(0, 3).Draw(t, "weight"))
			segments = append(segments, tokenizer.Segment{Text: text})
			if weight > 0 && text != "" {
				ranges = append(ranges, chat.Range{From: at, To: at + len(text), Weight: weight})
			}
			want = append(want, slices.Repeat([]float32{float32(weight)}, len(text))...)
			at += len(text)
		}
		s := (&Encoder{t: tok}).sample(segments, ranges, &chat.Rendered{})
		require.Len(t, s.Tokens, len(want))
		require.Equal(t, append([]float32{0}, want...)[1+min(1, len(want)):], append([]float32{}, s.LossWeights...))
	})
}

// The key depends exactly on what affects the tokens.
func TestEncoderKey(t *testing.T) {
	const timed = chatML + "{{ strftime_now('%d') }}"
	day := time.Date(2026, 2, 3, 0, 0, 0, 0, time.UTC)
	seen := map[string]string{}
	for name, o := range map[string]EncoderOptions{
		"none": {}, "template": {Template: parse(t, chatML)}, "other template": {Template: parse(t, withBOS)},
		"mode": {Template: parse(t, chatML), TrainOn: chat.Last}, "variables": {Template: parse(t, chatML), Variables: map[string]any{"x": 1}},
		"timed": {Template: parse(t, timed), Now: day}, "later": {Template: parse(t, timed), Now: day.Add(time.Hour)},
		"skipping": {SkipBroken: &Broken{}},
	} {
		for _, addBOS := range []bool{false, true} {
			name := fmt.Sprint(name, addBOS)
			e := newEncoder(t, chatTokenizer(t, addBOS), o)
			require.Empty(t, seen[e.Key()], name)
			seen[e.Key()] = name
			o := o
			if name[0] != 't' && name[0] != 'l' {
				o.Now = day
			}
			same := newEncoder(t, chatTokenizer(t, addBOS), o)
			require.Equal(t, e.Key(), same.Key(), name)
		}
	}
}

func TestModelTemplate(t *testing.T) {
	template := need.Value(ModelTemplate("model.gguf", withTemplate(t, chatML)))(t)
	require.Equal(t, chatML, template.Source())
	_, err := ModelTemplate("model.gguf", withTemplate(t, "\n{% if %}"))
	require.ErrorContains(t, err, "model.gguf:2: ")
}

// An encoder uses the vocabulary's template unless another one is set.
func TestEncoderTakesTheTemplateOfTheModel(t *testing.T) {
	talk := Example{Format: Messages, Conversation: chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "2 + 2?"), chat.NewMessage("assistant", "4")}}}
	text := func(v *tokenizer.Tokenizer, o EncoderOptions) string {
		e := need.Value(NewEncoder(v, o))(t)
		r := need.Value(e.Render(talk))(t)
		return r.Text
	}
	v := withTemplate(t, "{% for m in messages %}[{{ m.content }}]{% endfor %}")
	require.Equal(t, "[2 + 2?][4]", text(v, EncoderOptions{}))
	other := need.Value(chat.Parse("other", "{% for m in messages %}({{ m.content }}){% endfor %}"))(t)
	require.Equal(t, "(2 + 2?)(4)", text(v, EncoderOptions{Template: other}))
	_, err := NewEncoder(withTemplate(t, "\n{% if %}"), EncoderOptions{})
	require.ErrorContains(t, err, "tokenizer.chat_template:2: ")

	// The key is the same for the vocabulary's template and an equal one that is set.
	same := need.Value(chat.Parse("same", v.ChatTemplate()))(t)
	given := need.Value(NewEncoder(withTemplate(t, ""), EncoderOptions{Template: same}))(t)
	found := need.Value(NewEncoder(v, EncoderOptions{}))(t)
	require.Equal(t, given.Key(), found.Key())
}

// withTemplate returns a vocabulary with a chat template, as in a model file.
func withTemplate(t *testing.T, source string) *tokenizer.Tokenizer {
	t.Helper()
	c := chatTokenizer(t, false).Config()
	c.ChatTemplate = source
	v := need.Value(tokenizer.New(c))(t)
	again := need.Value(tokenizer.FromMetadata(v.KeyValues()))(t)
	require.Equal(t, source, again.ChatTemplate())
	return again
}
