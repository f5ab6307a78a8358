package data

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
)

// Templates that omit tools and reasoning, all reasoning except the last, and the system message.
const (
	plainML    = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
	lastThinks = "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and loop.last %}<think>\n{{ m.reasoning_content }}\n</think>\n{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}" +
		"{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
	distilled = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content.split('</think>')[-1] }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
	callsOnly = "{% for m in messages if m.role != 'system' %}<|im_start|>{{ m.role }}\n{{ m.content if not m.tool_calls }}{% for c in m.tool_calls %}<call>{{ c.function.name }}({{ c.function.arguments | tojson }})</call>{% endfor %}<|im_end|>\n{% endfor %}"
)

const call = `"tool_calls": [{"id": "1", "type": "function", "function": {"name": "price", "arguments": "{\"item\": \"tea\"}"}}]`

func firstLine(t *testing.T, path string) string {
	b := need.Value(os.ReadFile(path))(t)
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}

// If the text lacks part of a record, that is an error for the assistant's part, and a note otherwise.
func TestNothingVanishes(t *testing.T) {
	const remedy = ": none of it is in the text; remove it from the record, or give a template that writes it"
	for _, c := range []struct {
		name, line, template string
		want                 string // "" or an error
		notes                []string
	}{
		{name: "tools and tool calls", line: firstLine(t, "testdata/tools.jsonl"), template: plainML,
			want: "the chat template has no place for the tools that the assistant calls (tools[0]), nor for the tool calls of the assistant (messages[1].tool_calls[0])" + remedy},
		{name: "tool calls under another key", line: `{"conversations": [{"from": "human", "value": "U"}, {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {}}"}]}`, template: plainML,
			want: "the chat template has no place for the tool calls of the assistant (conversations[1].tool_calls[0])" + remedy},
		{name: "content null", line: inMessages(`{"role": "assistant", "content": null, ` + call + `}, {"role": "tool", "tool_call_id": "1", "content": "3"}, {"role": "assistant", "content": "A"}`), template: chatML,
			want: "the chat template has no place for the tool calls of the assistant (messages[1].tool_calls[0])" + remedy},
		{name: "content null, with a place for calls", line: inMessages(`{"role": "assistant", "content": null, ` + call + `}, {"role": "tool", "tool_call_id": "1", "name": "price", "content": "3"}, {"role": "assistant", "content": "A"}`),
			template: strings.Replace(callsOnly, "if not m.tool_calls", "+ ''", 1), notes: []string{"rendered"}},
		{name: "words beside a call", line: inMessages(`{"role": "assistant", "content": "W", ` + call + `}`), template: callsOnly,
			want: "the chat template has no place for the words of the assistant (messages[1].content)" + remedy},
		{name: "reasoning", line: inMessages(`{"role": "assistant", "reasoning_content": "two and two make four", "content": "4"}`), template: plainML,
			want: "the chat template has no place for the reasoning of the assistant (messages[1].reasoning_content)" + remedy},
		{name: "reasoning of a completion", line: `{"system": "S", "prompt": [` + question + `], "completion": [{"role": "assistant", "thinking": "R", "content": "A"}]}`, template: plainML,
			want: "the chat template has no place for the reasoning of the assistant (completion[0].thinking)" + remedy},
		{name: "reasoning beside texts", line: `{"prompt": "U", "completion": "A", "reasoning_content": "R"}`, template: plainML,
			want: "the chat template has no place for the reasoning of the assistant (reasoning_content)" + remedy},
		{name: "thinking beside instructions", line: `{"instruction": "U", "output": "A", "thinking": "R"}`, template: plainML,
			want: "the chat template has no place for the reasoning of the assistant (thinking)" + remedy},
		{name: "thinking that is not a text", line: `{"prompt": "U", "completion": "A", "thinking": true}`, template: plainML, notes: []string{"rendered", "unused key thinking"}},
		{name: "reasoning beside raw texts", line: `{"prompt": "U", "completion": "A", "reasoning_content": "R"}`,
			want: "a prompt and completion in plain text have no place for the reasoning of the assistant; remove it from the record, or use a chat template"},
		{name: "reasoning of earlier answers", line: inMessages(`{"role": "assistant", "reasoning_content": "R", "content": "A"}, ` + question + `, {"role": "assistant", "reasoning_content": "S", "content": "B"}`), template: lastThinks,
			notes: []string{"left out the reasoning of answers before the last", "rendered"}},
		{name: "reasoning in a content", line: inMessages(`{"role": "assistant", "content": "<think>two and two make four, as everybody knows</think>4"}`), template: distilled,
			want: "the chat template has no place for a part of the words of the assistant, such as its reasoning (messages[1].content)" + remedy},
		{name: "reasoning in an earlier content", line: inMessages(`{"role": "assistant", "content": "<think>two and two make four, as everybody knows</think>4"}, ` + question + `, {"role": "assistant", "content": "B"}`), template: distilled,
			notes: []string{"left out a part of answers before the last, such as their reasoning", "rendered"}},
		{name: "the second tool call", line: inMessages(`{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}, {"function": {"name": "g", "arguments": {}}}]}`),
			template: strings.Replace(callsOnly, "in m.tool_calls %}", "in (m.tool_calls or [])[:1] %}", 1),
			want:     "the chat template has no place for the tool calls of the assistant (messages[1].tool_calls[1])" + remedy},
		{name: "system", line: `{"system": "Be brief.", "prompt": "2+2?", "completion": "4"}`, template: callsOnly, notes: []string{"left out messages of the system", "rendered"}},
		{name: "system of raw texts", line: `{"system": "Be brief.", "instruction": "2+2?", "output": "4", "tools": [{"name": "f"}]}`, notes: []string{"left out messages of the system", "left out tools that are not called"}},
		{name: "tools that are not called", line: `{"messages": [` + question + `, {"role": "assistant", "content": "A"}], "tools": [{"name": "f"}, {"name": "g"}], "documents": [{"text": "D"}]}`, template: plainML,
			notes: []string{"left out tools that are not called", "left out tools that are not called", "left out documents", "rendered"}},
		{name: "keys", line: `{"id": 3, "messages": [{"role": "user", "content": "U", "name": "Ann"}, {"role": "assistant", "content": "A", "lang": "en"}], "source": "web", "score": null, "extra": []}`, template: plainML,
			notes: []string{"unused key messages[].name", "unused key messages[].lang", "rendered", "unused key id", "unused key source"}},
		{name: "keys of a text", line: `{"text": "T", "system": "S"}`, notes: []string{"unused key system"}},
		{name: "empty answers", line: inMessages(`{"role": "assistant", "content": " "}, ` + question + `, {"role": "assistant", "content": "", "train": false}`), template: plainML, notes: []string{"rendered", "empty answer"}},
		{name: "an empty completion", line: `{"prompt": "U", "completion": ""}`, notes: []string{"empty answer"}},
		{name: "a prompt with mark-up of its own", line: `{"prompt": "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n", "completion": "A"}`, template: plainML, notes: []string{"rendered", "marked up"}},
		{name: "a raw prompt with mark-up", line: `{"prompt": "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n", "completion": "A"}`},
		{name: "a prompt with brackets", line: `{"prompt": "a <b> [c] |d|", "completion": "A"}`, template: plainML, notes: []string{"rendered"}},
		{name: "empty reasoning", line: inMessages(`{"role": "assistant", "content": "A"}`), template: lastThinks, notes: []string{"rendered", "empty reasoning <think>\n\n</think>"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := EncoderOptions{}
			if c.template != "" {
				o.Template = parse(t, c.template)
			}
			path := write(t, "a.jsonl", c.line)
			samples, err := prepare(t, []string{path}, ReadOptions{}, o)
			if c.want != "" {
				require.EqualError(t, err, path+":1: "+c.want)
				return
			}
			require.NoError(t, err)
			var notes []string
			for _, n := range samples[0].Notes {
				require.Equal(t, path, n.File)
				require.Equal(t, 1, n.Line)
				notes = append(notes, strings.TrimSpace(fmt.Sprint(n.Kind, " ", n.What)))
			}
			require.Equal(t, c.notes, notes)
		})
	}
}

// A prompt with its completion equals a user turn and an assistant turn, byte for byte, unless it is
// raw.
func TestPromptAsMessages(t *testing.T) {
	as := func(source string, raw bool) []Sample {
		samples := need.Value(prepare(t, []string{"testdata/" + source}, ReadOptions{}, EncoderOptions{Template: parse(t, chatML), RawPrompts: raw}))(t)
		require.Len(t, samples, 6)
		for i := range samples {
			samples[i].Notes = nil
		}
		return samples
	}
	require.Equal(t, as("prompt-completion-as-messages.jsonl", false), as("prompt-completion.jsonl", false))
	raw := FormatSample(chatTokenizer(t, true), as("prompt-completion.jsonl", true)[2], Marks{"«", "»"})
	require.Equal(t, "<s>Hi, I am Paul.«Hello Paul, how can I help you today?</s>»", raw)
	raw = FormatSample(chatTokenizer(t, true), as("prompt-completion-as-messages.jsonl", true)[2], Marks{"«", "»"})
	require.Contains(t, raw, "<|im_start|>user\nHi, I am Paul.<|im_end|>", "messages have no raw text")
}

// A system key beside the conversation is its first message.
func TestSystemKey(t *testing.T) {
	const want = "<s><|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n«4<|im_end|>»\n"
	for _, line := range []string{
		`{"system":"Be brief.","messages":[{"role":"user","content":"2+2?"},{"role":"assistant","content":"4"}]}`,
		`{"system":"Be brief.","prompt":"2+2?","completion":"4"}`,
		`{"system":"Be brief.","prompt":[{"role":"user","content":"2+2?"}],"completion":[{"role":"assistant","content":"4"}]}`,
		`{"system":"Be brief.","conversations":[{"from":"human","value":"2+2?"},{"from":"gpt","value":"4"}]}`,
		`{"system":"Be brief.","instruction":"2+2?","output":"4"}`,
	} {
		samples := need.Value(prepare(t, []string{write(t, "a.jsonl", line)}, ReadOptions{}, EncoderOptions{Template: parse(t, chatML)}))(t)
		require.Equal(t, want, FormatSample(chatTokenizer(t, true), samples[0], Marks{"«", "»"}))
	}
}

// EmptyReasoning affects tokens, and so the cache key.
func TestEmptyReasoningOfSamples(t *testing.T) {
	keys := map[string]bool{}
	for mode, want := range map[chat.EmptyReasoning]string{
		chat.AsPrompted: "«<think>\n\n</think>\nA<|im_end|>»\n", chat.TrainEmpty: "«<think>\n\n</think>\nA<|im_end|>»\n", chat.MaskEmpty: "<think>\n\n</think>\n«A<|im_end|>»\n",
	} {
		tok := chatTokenizer(t, true)
		e := newEncoder(t, tok, EncoderOptions{Template: parse(t, lastThinks), EmptyReasoning: mode})
		keys[e.Key()] = true
		s := need.Value(e.Encode(example(t, greeting)))(t)
		require.Equal(t, "<s><|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n"+want, FormatSample(tok, s, Marks{"«", "»"}))
	}
	require.Len(t, keys, 3)
}

// Notes are counted once per example, in bounded memory, and stored in the cache.
func TestNotes(t *testing.T) {
	var lines strings.Builder
	for i := range 150 {
		fmt.Fprintf(&lines, `{"text": "T%d", "id": %d, "key %d": 1}`+"\n", i, i, i)
	}
	path := write(t, "a.jsonl", lines.String())
	e := newEncoder(t, chatTokenizer(t, true), EncoderOptions{})
	o := PrepareOptions{Length: 100, Cache: t.TempDir(), Key: "x"}
	var before []NoteCount
	for _, fromCache := range []bool{false, true} {
		d, stats, err := Prepare(t.Context(), Read(t.Context(), []string{path}, ReadOptions{}), e.Encode, o)
		require.NoError(t, err)
		require.NoError(t, d.Close())
		require.Equal(t, fromCache, stats.FromCache)
		if !fromCache {
			before = stats.Notes
		}
		require.Equal(t, before, stats.Notes)
	}
	require.Len(t, before, 101)
	require.Equal(t, NoteCount{Note{UnusedKey, "id", path, 1}, 150}, before[0])
	require.Equal(t, NoteCount{Note{UnusedKey, "key 98", path, 99}, 1}, before[99])
	require.Equal(t, NoteCount{Note{UnusedKey, "…", path, 100}, 51}, before[100])
}
