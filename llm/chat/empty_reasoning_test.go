package chat_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
)

const (
	// As Qwen3: an empty block in the last turn; the prompt contains it if thinking is off.
	lastThinks = `{% for m in messages %}<|{{ m.role }}|>
{% if m.role == 'assistant' and (loop.last or m.reasoning_content) %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}{% for c in m.tool_calls %}<call>{{ c.function.name }}</call>{% endfor %}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% if enable_thinking is false %}<think>

</think>

{% endif %}{% endif %}`
	// As Nemotron: the prompt begins the block.
	promptThinks = `{% for m in messages %}<|{{ m.role }}|>
{% if m.role == 'assistant' %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
<think>
{% endif %}`
	// As GLM: the separator goes with the block.
	separated = `{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}{{ '\n<think>' }}{{ m.thinking }}{{ '</think>\n' }}{% endif %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`
	tagged    = `{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}{% generation %}[THINK]{{ m.thinking }}[/THINK]{{ m.content }}<|end|>{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}`
	// As gpt-oss: reasoning has its own turn, omitted if there is none.
	channels = `{% for m in messages %}{% if m.role == 'assistant' and m.thinking %}<a>analysis<m>{{ m.thinking }}<e>{% endif %}<a>{{ m.role }}<m>{{ m.content }}<e>{% endfor %}{% if add_generation_prompt %}<a>{% endif %}`
)

// Empty reasoning blocks are found by comparison with the block of an answer that has reasoning.
func TestEmptyReasoning(t *testing.T) {
	const talk = `{"messages": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "A", "reasoning_content": "R"}, {"role": "user", "content": "<think></think>"}, {"role": "assistant", "content": "B", "tool_calls": [{"function": {"name": "f"}}]}]}`
	for _, c := range []struct {
		name, template, variable string
		blocks                   []string
		prompt, train, mask      string // in the last turn
	}{
		{"trained", lastThinks, "", []string{"<think>\n\n</think>\n\n"},
			"<think>\n\n</think>\n\nB<call>f</call><|end|>", "<think>\n\n</think>\n\nB<call>f</call><|end|>", "B<call>f</call><|end|>"},
		{"in the prompt", lastThinks, "enable_thinking", []string{"<think>\n\n</think>\n\n"},
			"B<call>f</call><|end|>", "<think>\n\n</think>\n\nB<call>f</call><|end|>", "B<call>f</call><|end|>"},
		{"begun by the prompt", promptThinks, "", []string{"<think></think>"}, "</think>B<|end|>", "<think></think>B<|end|>", "B<|end|>"},
		{"behind a separator", separated, "", []string{"<think></think>\n"}, "\n<think></think>\nB", "\n<think></think>\nB", "B"},
		{"generation tags", tagged, "", []string{"[THINK][/THINK]"}, "[THINK][/THINK]B<|end|>", "[THINK][/THINK]B<|end|>", "B<|end|>"},
		{"a turn of its own", channels, "", nil, "assistant<m>B<e>", "assistant<m>B<e>", "assistant<m>B<e>"},
		{"no reasoning", llama, "", nil, "B<|eot_id|>", "B<|eot_id|>", "B<|eot_id|>"},
	} {
		for mode, want := range map[chat.EmptyReasoning]string{chat.AsPrompted: c.prompt, chat.TrainEmpty: c.train, chat.MaskEmpty: c.mask} {
			o := &chat.Options{EmptyReasoning: mode, Variables: map[string]any{"eos_token": "</s>"}}
			if c.variable != "" {
				o.Variables[c.variable] = false
			}
			r, err := render(c.template, conversation(t, talk), o)
			require.NoError(t, err, c.name)
			var blocks []string
			for _, b := range r.EmptyReasoning() {
				require.Equal(t, 3, b.Message, c.name)
				blocks = append(blocks, r.Text[b.From:b.To])
			}
			require.Equal(t, c.blocks, blocks, "%s: %s", c.name, r.Text)
			last := ""
			for _, x := range r.Trained(chat.Last) {
				last += r.Text[x.From:x.To]
			}
			require.Equal(t, want, last, "%s, %v: %s", c.name, mode, r.Text)
			parsed := need.Value(chat.ParseEmptyReasoning(mode.String()))(t)
			require.Equal(t, mode, parsed)
		}
	}
	_, err := chat.ParseEmptyReasoning("no")
	require.EqualError(t, err, `there is no treatment "no" of empty reasoning; use one of prompt, train, mask`)
}

// Reasoning that the template omits leaves an empty block.
func TestEmptyReasoningThatWasLeftOut(t *testing.T) {
	const talk = `{"messages": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "A", "thinking": "R"}, {"role": "user", "content": "V"}, {"role": "assistant", "content": "B", "thinking": "S"}]}`
	r := need.Value(render(strings.Replace(promptThinks, "m.reasoning_content", "m.reasoning_content if loop.last", 1), conversation(t, talk), &chat.Options{EmptyReasoning: chat.MaskEmpty}))(t)
	require.Len(t, r.EmptyReasoning(), 1)
	require.Equal(t, 1, r.EmptyReasoning()[0].Message)
	require.Equal(t, []string{"A<|end|>", "S</think>B<|end|>"}, trainedText(r, chat.Assistant), r.Text)
}
