package chat_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
)

// trainedText returns what a mode trains, one string for each range.
func trainedText(r *chat.Rendered, mode chat.Mode) []string {
	var out []string
	for _, x := range r.Trained(mode) {
		out = append(out, r.Text[x.From:x.To])
	}
	return out
}

// TestTrainedWords lists templates for each way to write turns, and by hand the assistant's part of their text.
func TestTrainedWords(t *testing.T) {
	for _, c := range []struct {
		name, template string
		want           []string
	}{
		{"ChatML", chatML, []string{"A1<|im_end|>", "A2<|im_end|>"}},
		{"Llama 3", llama, []string{"A1<|eot_id|>", "A2<|eot_id|>"}},
		{"the role in brackets", `{% for m in messages %}[|{{ m.role }}|]{{ m.content }}[|end|]
{% endfor %}{% if add_generation_prompt %}[|assistant|]{% endif %}`, []string{"A1[|end|]", "A2[|end|]"}},
		{"the user's turn ends with the header", `{% for m in messages %}{% if m.role == 'user' %}{{ '<|user|>\n' + m.content + '<|end|>\n<|assistant|>\n' }}` +
			`{% elif m.role == 'assistant' %}{{ m.content + '<|end|>\n' }}{% endif %}{% endfor %}`, []string{"A1<|end|>", "A2<|end|>"}},
		{"no header, a space before the answer", `{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}` +
			`{% elif m.role == 'assistant' %}{{ ' ' + m.content + eos_token }}{% endif %}{% endfor %}`, []string{" A1</s>", " A2</s>"}},
		{"a header, but no generation prompt", `{% for m in messages %}{% if m.role == 'user' %}USER: {{ m.content }} ` +
			`{% elif m.role == 'assistant' %}ASSISTANT: {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}`, []string{"A1</s>", "A2</s>"}},
		{"turns end where the next begins", `{% for m in messages %}{% if not loop.first %}<|eom|>{% endif %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|eom|>` +
			`{% if add_generation_prompt %}<|assistant|>{% endif %}`, []string{"A1<|eom|>", "A2<|eom|>"}},
		{"a loop over indices", `{% for i in range(messages | length) %}{% set m = messages[i] %}<|{{ m.role }}|>{{ m.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`, []string{"A1<|end|>", "A2<|end|>"}},
		{"indices without a name", `{% for i in range(messages | length) %}<|{{ messages[i].role }}|>{{ messages[i].content }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`, []string{"A1<|end|>", "A2<|end|>"}},
		{"a macro writes turns", `{% macro turn(m) %}<|{{ m.role }}|>{{ m['content'] }}<|end|>{% endmacro %}{% for m in messages %}{{ turn(m) }}{% endfor %}` +
			`{% if add_generation_prompt %}<|assistant|>{% endif %}`, []string{"A1<|end|>", "A2<|end|>"}},
		{"the prompt is in the loop", `{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + eos_token }}` +
			`{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}{% endfor %}`, []string{"A1</s>", "A2</s>"}},
		{"the prompt is always there", `{% for m in messages %}<t><|{{ m.role }}|>{% if m.role == 'assistant' %}<answer>{% endif %}{{ m.content }}<|end|>{% endfor %}<t><|assistant|><think></think>`,
			[]string{"<answer>A1<|end|>", "<answer>A2<|end|>"}},
		{"the end without a prompt", `{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '<|end|>\n' }}{% endfor %}` +
			`{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}`, []string{"A1<|end|>", "A2<|end|>"}},
		{"put together, with tokens without brackets", `{% set ns = namespace(out='') %}{% for i in range(messages | length) %}{% set m = messages[i] %}` +
			`{% set ns.out = ns.out ~ m.role ~ ': ' ~ m.content %}{% set ns.out = ns.out ~ ' ##\n' %}{% endfor %}{{ ns.out }}` +
			`{% if add_generation_prompt %}assistant:{% endif %}`, []string{" A1 ##", " A2 ##"}},
		{"turns end where the next begins, the last stays open", `{% for m in messages %}{% if m.role == 'user' %}{{ '<|assistant_end|>' if not loop.first and messages[loop.index0 - 1].role == 'assistant' else '<|system_end|>' }}<u>{% endif %}` +
			`{% if m.role == 'assistant' %}<a>{% endif %}{{ m.content }}{% if m.role == 'user' %}</u>{% endif %}{% endfor %}` +
			`{% if add_generation_prompt %}<a>{% endif %}`, []string{"A1<|assistant_end|>", "A2"}},
		{"upper case, trimmed and split", `{% for m in messages %}<|{{ m.role }}|>{{ (m.content | upper).split('|')[0].strip() ~ '' }}<|end|>{% endfor %}` +
			`{% if add_generation_prompt %}<|assistant|>{% endif %}`, []string{"A1<|end|>", "A2<|end|>"}},
		{"a text that is put together", `{% set ns = namespace(t='') %}{% for m in messages %}{% set ns.t = ns.t + '<|' + m.role + '|>' + m.content + '<|end|>' %}{% endfor %}{{ ns.t }}` +
			`{% if add_generation_prompt %}<|assistant|>{% endif %}`, []string{"A1<|end|>", "A2<|end|>"}},
		{"thoughts that the prompt begins", `{% for m in messages %}<|{{ m.role }}|>
{% if m.role == 'assistant' %}<think>

</think>
{% endif %}{{ m.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
<think>
{% endif %}`, []string{"\n</think>\nA1<|end|>", "\n</think>\nA2<|end|>"}},
		{"thoughts that the prompt does not begin", `{% for m in messages %}<|{{ m.role }}|>
{% if m.role == 'assistant' %}<think></think>{% endif %}{{ m.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}`, []string{"<think></think>A1<|end|>", "<think></think>A2<|end|>"}},
		{"thoughts that the prompt begins, and the words", `{% for m in messages %}<|{{ m.role }}|>
{% if m.role == 'assistant' %}{{ '<think>\nR\n</think>' ~ m.content | replace('A', 'A') }}{% else %}{{ m.content }}{% endif %}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
<think>
{% endif %}`, []string{"R\n</think>A1<|end|>", "R\n</think>A2<|end|>"}},
		{"as ERNIE 4.5: a role in words, a token at the end", `{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ 'User: ' + m.content + '\n' }}{% elif m.role == 'assistant' %}` +
			`{{ 'Assistant: ' + m.content + '<|end_of_sentence|>' }}{% else %}{{ m.content + '\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'Assistant: ' }}{% endif %}`,
			[]string{"A1<|end_of_sentence|>", "A2<|end_of_sentence|>"}},
		{"as HunYuan: the user's turn ends with a token, no header", `{% for m in messages %}{% if m.role == 'user' %}{{ '<|start|>' + m.content + '<|extra_0|>' }}{% elif m.role == 'assistant' %}{{ m.content + '<|eos|>' }}{% endif %}{% endfor %}`,
			[]string{"A1<|eos|>", "A2<|eos|>"}},
		{"as OLMo 2: the text begins with the token that ends turns", `{{ eos_token }}{% for m in messages %}{% if m.role == 'assistant' %}{{ '<|assistant|>\n' + m.content + eos_token }}{% if not loop.last %}{{ '\n' }}{% endif %}` +
			`{% else %}{{ '<|' + m.role + '|>\n' + m.content + '\n' }}{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}{% endfor %}`, []string{"A1</s>", "A2</s>"}},
		{"as InternLM 2: ChatML behind BOS", `{{ bos_token }}` + chatML, []string{"A1<|im_end|>", "A2<|im_end|>"}},
		{"as dots.llm1: a token before and behind each turn", `{% for m in messages %}<|{{ {'user': 'userprompt', 'assistant': 'response', 'system': 'system'}[m.role] }}|>{{ m.content }}<|endof{{ {'user': 'userprompt', 'assistant': 'response', 'system': 'system'}[m.role] }}|>{% endfor %}` +
			`{% if add_generation_prompt %}<|response|>{% endif %}`, []string{"A1<|endofresponse|>", "A2<|endofresponse|>"}},
		{"as Grok: words at both ends", `{% for m in messages %}{% if m.role == 'user' %}{{ 'Human: ' + m.content.strip() + '<|separator|>\n\n' }}{% elif m.role == 'system' %}{{ 'System: ' + m.content.strip() + '<|separator|>\n\n' }}` +
			`{% else %}{{ 'Assistant: ' + m.content + '<|separator|>\n\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}`, []string{" A1<|separator|>", " A2<|separator|>"}},
		{"generation tags", `{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}
{% endfor %}`, []string{"A1", "A2"}},
	} {
		talk := conversation(t, `{"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U1"}, {"role": "assistant", "content": "A1"},
			{"role": "user", "content": "U2"}, {"role": "assistant", "content": "A2"}]}`)
		for _, withPrompt := range []bool{false, true} {
			got, err := render(c.template, talk, &chat.Options{AddGenerationPrompt: withPrompt, Variables: map[string]any{"bos_token": "<s>", "eos_token": "</s>"}})
			require.NoError(t, err, c.name)
			require.Equal(t, c.want, trainedText(got, chat.Assistant), "%s: %s", c.name, got.Text)
			require.Equal(t, c.want[1:], trainedText(got, chat.Last), c.name)
		}
	}
}

// A tool call and its mark-up are the assistant's; the tool's result is not, even within the same turn.
func TestTrainedToolCalls(t *testing.T) {
	talk := conversation(t, `{"messages": [{"role": "user", "content": "U1"},
		{"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"x": "ä"}}}]},
		{"role": "tool", "content": "T1"}, {"role": "assistant", "content": "A2"}],
		"tools": [{"type": "function", "function": {"name": "f"}}]}`)
	const header = `<tools>{{ tools | tojson }}</tools>{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls %}
<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}`
	for _, c := range []struct {
		template string
		want     []string
	}{
		{header + `<|end|>{% endfor %}`, []string{
			"<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": \"ä\"}}</tool_call><|end|>", "A2<|end|>"}},
		{`{% for m in messages if m.role != 'tool' %}<|{{ m.role }}|>{{ m.content }}{% if m.tool_calls %}<call>{{ m.tool_calls[0].function.name }}</call>` +
			`{% for i in range(messages | length) %}{% if messages[i].role == 'tool' %}{% set tool = messages[i] %}<response of="{{ m.tool_calls[0].function.name }}">{{ tool.content }}</response>{% endif %}{% endfor %}{% endif %}` +
			`<|end|>{% endfor %}`, []string{"<call>f</call>", "A2<|end|>"}},
		// As DeepSeek: after tool results, the prompt is the end of the results rather than a header.
		{`{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}<|assistant|>{% elif m.role == 'tool' %}<|outputs|>{{ m.content }}{% set tool = true %}` +
			`{% else %}{% if loop.index0 and messages[loop.index0 - 1].role == 'tool' %}<|outputs_end|>{% endif %}{{ m.content }}{% for c in m.tool_calls %}<call>{{ c.function.name }}{% endfor %}<|end|>{% endif %}{% endfor %}` +
			`{% if add_generation_prompt and messages[-1].role == 'tool' %}<|outputs_end|>{% elif add_generation_prompt %}<think>{% endif %}{% if false %}`,
			[]string{"<call>f<|end|>", "A2<|end|>"}},
	} {
		got := need.Value(render(c.template+`{% if add_generation_prompt %}<|assistant|>{% endif %}`+strings.Repeat("{% endif %}", strings.Count(c.template, "{% if false %}")), talk, nil))(t)
		require.Equal(t, c.want, trainedText(got, chat.Assistant), got.Text)
		for _, x := range got.Trained(chat.Assistant) {
			require.NotContains(t, got.Text[x.From:x.To], "T1")
		}
	}
}

// A turn written outside of the loop, whose mark-up belongs to no message, is trained with its end.
func TestTrainedTurnOutsideOfTheLoop(t *testing.T) {
	const last = `{% for m in messages[:-1] %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}{% set m = messages[-1] %}<|{{ m.role }}|>{{ m.content }}` +
		`{% if m.tool_calls %}<call>{{ m.tool_calls[0].function.arguments | tojson }}</call>{% endif %}<|end|>
{% if add_generation_prompt %}<|assistant|>{% endif %}`
	talk := conversation(t, `{"messages": [{"role": "user", "content": "U1"}, {"role": "assistant", "content": "A1", "tool_calls": [{"function": {"name": "f", "arguments": {"x": {"y": "z"}}}}]}]}`)
	got := need.Value(render(last, talk, nil))(t)
	require.Equal(t, []string{`A1<call>{"x": {"y": "z"}}</call><|end|>`}, trainedText(got, chat.Assistant))
}

func TestTrainedEndOfTurn(t *testing.T) {
	const glm = `{% for m in messages %}<|{{ m.role }}|>
{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`
	talk := conversation(t, `{"messages": [{"role": "user", "content": "U1"}, {"role": "assistant", "content": "A1"}, {"role": "user", "content": "U2"}]}`)
	got := need.Value(render(glm, talk, nil))(t)
	require.Equal(t, []string{"\nA1"}, trainedText(got, chat.Assistant), "nothing ends the turn")
	got = need.Value(render(glm, talk, &chat.Options{EndOfTurn: []string{"<|observation|>", "<|user|>"}}))(t)
	require.Equal(t, []string{"\nA1<|user|>"}, trainedText(got, chat.Assistant), "the header of the next turn ends it")
}

// If the model ends its turns with another token, the token that a template puts after past answers is not trained.
func TestTrainedEndOfPastTurn(t *testing.T) {
	const harmony = `{% for m in messages %}{% if m.role == 'assistant' %}{% if m.thinking %}<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}<|end|>{% endif %}` +
		`{% if m.tool_calls %}<|start|>assistant to={{ m.tool_calls[0].function.name }}<|message|>{}<|call|>{% else %}<|start|>assistant<|channel|>final<|message|>{{ m.content }}{{ '<|return|>' if loop.last else '<|end|>' }}{% endif %}` +
		`{% else %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}`
	talk := conversation(t, `{"messages": [{"role": "user", "content": "U1"}, {"role": "assistant", "content": "A1", "thinking": "R1"}, {"role": "user", "content": "U2"},
		{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f"}}]}, {"role": "tool", "content": "T1"}, {"role": "assistant", "content": "A2"}]}`)
	for past, ends := range map[string][]string{"": {"<|return|>", "<|call|>"}, "<|end|>": {"<|end|>", "<|return|>", "<|call|>"}} {
		got := need.Value(render(harmony, talk, &chat.Options{EndOfTurn: ends}))(t)
		require.Equal(t, []string{
			"<|channel|>analysis<|message|>R1<|end|><|start|>assistant<|channel|>final<|message|>A1" + past,
			" to=f<|message|>{}<|call|>", "<|channel|>final<|message|>A2<|return|>",
		}, trainedText(got, chat.Assistant), ends)
	}
}

// A template may accept only contents in parts, as some templates of vision models do. It trains the same text as the
// template for string contents.
func TestTrainedParts(t *testing.T) {
	const content = "{{ m.content }}"
	contents := strings.NewReplacer(content, "{% for p in m.content %}{{ p.text }}{% endfor %}")
	for name, template := range map[string]string{
		"with a prompt":                   "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
		"without one":                     "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}",
		"turns end where the next begins": "{% for m in messages %}{% if not loop.first %}<|eom|>{% endif %}<|{{ m.role }}|>{{ m.content }}{% endfor %}",
		"empty reasoning":                 "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|end|>{% endfor %}",
	} {
		t.Run(name, func(t *testing.T) {
			ofText := need.Value(chat.Parse("text", template))(t)
			ofParts := need.Value(chat.Parse("parts", contents.Replace(template)))(t)
			require.NotEqual(t, ofText.Source(), ofParts.Source())
			o := &chat.Options{EndOfTurn: []string{"<|eom|>"}}
			want := need.Value(ofText.Render(greeting, o))(t)
			got := need.Value(ofParts.Render(ofParts.Forms(o).Convert(greeting), o))(t)
			require.Equal(t, want.Text, got.Text)
			require.Equal(t, want.OpenEnd(), got.OpenEnd())
			require.Equal(t, want.EmptyReasoning(), got.EmptyReasoning())
			for _, mode := range []chat.Mode{chat.Assistant, chat.Last, chat.Completion, chat.All} {
				require.Equal(t, trainedText(want, mode), trainedText(got, mode), mode)
			}
			require.NotContains(t, trainedText(got, chat.Assistant)[0], "<|assistant|>")
		})
	}
}

func TestTrainedModes(t *testing.T) {
	talk := conversation(t, `{"messages": [{"role": "user", "content": "U1"}, {"role": "assistant", "content": "A1", "weight": 0.5},
		{"role": "user", "content": "U2"}, {"role": "assistant", "content": "A2"}, {"role": "assistant", "content": "A3", "train": false},
		{"role": "assistant", "content": "A4"}]}`)
	got := need.Value(render(chatML, talk, nil))(t)
	require.Equal(t, []string{"A1<|im_end|>", "A2<|im_end|>", "A4<|im_end|>"}, trainedText(got, chat.Assistant))
	require.Equal(t, []string{"A4<|im_end|>"}, trainedText(got, chat.Last))
	require.Equal(t, []string{"A2<|im_end|>", "A4<|im_end|>\n"}, trainedText(got, chat.Completion))
	require.InDelta(t, 0.5, got.Trained(chat.Assistant)[0].Weight, 0)
	require.InDelta(t, 1, got.Trained(chat.Assistant)[1].Weight, 0)
	all := strings.Join(trainedText(got, chat.All), "")
	require.Equal(t, strings.Replace(got.Text, "<|im_start|>assistant\nA3<|im_end|>\n", "", 1), all)

	for _, mode := range []chat.Mode{chat.Assistant, chat.Last, chat.Completion, chat.All} {
		parsed := need.Value(chat.ParseMode(mode.String()))(t)
		require.Equal(t, mode, parsed)
	}
	_, err := chat.ParseMode("some")
	require.EqualError(t, err, `there is no mode "some"; use one of assistant, last, completion, all`)
}
