package chat_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/llm/chat"
)

// trainedText is what a mode trains, one string for each range.
func trainedText(r *chat.Rendered, mode chat.Mode) []string {
	var out []string
	for _, x := range r.Trained(mode) {
		out = append(out, r.Text[x.From:x.To])
	}
	return out
}

const (
	chatML = `{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{% endfor %}` +
		`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`
	llama = `{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>

{{ m.content | trim }}<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>

{% endif %}`
)

func conversation(t *testing.T, source string) *chat.Conversation {
	var c chat.Conversation
	require.NoError(t, json.Unmarshal([]byte(source), &c))
	return &c
}

// TestTrainedWords has templates of each way to write turns, with what of them the assistant writes, by hand.
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

// A tool call is the assistant's with its mark-up; what the tool answers is not, even inside of the same turn.
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
	} {
		got, err := render(c.template+`{% if add_generation_prompt %}<|assistant|>{% endif %}`, talk, nil)
		require.NoError(t, err)
		require.Equal(t, c.want, trainedText(got, chat.Assistant), got.Text)
		for _, x := range got.Trained(chat.Assistant) {
			require.NotContains(t, got.Text[x.From:x.To], "T1")
		}
	}
}

func TestTrainedEndOfTurn(t *testing.T) {
	const glm = `{% for m in messages %}<|{{ m.role }}|>
{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`
	talk := conversation(t, `{"messages": [{"role": "user", "content": "U1"}, {"role": "assistant", "content": "A1"}, {"role": "user", "content": "U2"}]}`)
	got, err := render(glm, talk, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"\nA1"}, trainedText(got, chat.Assistant), "nothing ends the turn")
	got, err = render(glm, talk, &chat.Options{EndOfTurn: []string{"<|observation|>", "<|user|>"}})
	require.NoError(t, err)
	require.Equal(t, []string{"\nA1<|user|>"}, trainedText(got, chat.Assistant), "the header of the next turn ends it")
}

func TestTrainedModes(t *testing.T) {
	talk := conversation(t, `{"messages": [{"role": "user", "content": "U1"}, {"role": "assistant", "content": "A1", "weight": 0.5},
		{"role": "user", "content": "U2"}, {"role": "assistant", "content": "A2"}, {"role": "assistant", "content": "A3", "train": false},
		{"role": "assistant", "content": "A4"}]}`)
	got, err := render(chatML, talk, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"A1<|im_end|>", "A2<|im_end|>", "A4<|im_end|>"}, trainedText(got, chat.Assistant))
	require.Equal(t, []string{"A4<|im_end|>"}, trainedText(got, chat.Last))
	require.Equal(t, []string{"A2<|im_end|>", "A4<|im_end|>\n"}, trainedText(got, chat.Completion))
	require.InDelta(t, 0.5, got.Trained(chat.Assistant)[0].Weight, 0)
	require.InDelta(t, 1, got.Trained(chat.Assistant)[1].Weight, 0)
	all := strings.Join(trainedText(got, chat.All), "")
	require.Equal(t, strings.Replace(got.Text, "<|im_start|>assistant\nA3<|im_end|>\n", "", 1), all)

	for _, mode := range []chat.Mode{chat.Assistant, chat.Last, chat.Completion, chat.All} {
		parsed, err := chat.ParseMode(mode.String())
		require.NoError(t, err)
		require.Equal(t, mode, parsed)
	}
	_, err = chat.ParseMode("some")
	require.EqualError(t, err, `no mode "some": it is one of assistant, last, completion, all`)
}

// Every byte has its message and its source, through whatever the template does with it.
func TestSpans(t *testing.T) {
	talk := conversation(t, `{"messages": [{"role": "user", "name": "Ann", "content": "größer"}, {"role": "assistant", "content": [{"type": "text", "text": "A"}],
		"reasoning_content": "R", "tool_calls": [{"function": {"name": "f\n"}}], "mood": "good"}], "tools": [{"name": "t"}], "documents": [{"text": "d"}]}`)
	type chunk struct {
		text    string
		message int
		source  chat.Source
	}
	for _, c := range []struct {
		expression string
		want       []chunk
	}{
		{"messages[0].content", []chunk{{"größer", 0, chat.Content}}},
		{"messages[0].role", []chunk{{"user", 0, chat.Role}}},
		{"messages[0].name", []chunk{{"Ann", 0, chat.Role}}},
		{"messages[1].mood", []chunk{{"good", 1, chat.Field}}},
		{"messages[1].content[0].text ~ messages[1].reasoning_content", []chunk{{"A", 1, chat.Content}, {"R", 1, chat.Reasoning}}},
		{"messages[1].thinking", []chunk{{"R", 1, chat.Reasoning}}},
		{"tools[0].name ~ documents[0].text ~ bos_token", []chunk{{"t", -1, chat.Tools}, {"d", -1, chat.Documents}, {"<s>", -1, chat.Variable}}},
		{"('<' + messages[0].content + '>')[1:4]", []chunk{{"grö", 0, chat.Content}}},
		{"('<' ~ messages[0].content ~ '>')[::-1]", []chunk{{">", -1, chat.Markup}, {"reßörg", 0, chat.Content}, {"<", -1, chat.Markup}}},
		{"('  ' + messages[0].content + '  ') | trim", []chunk{{"größer", 0, chat.Content}}},
		{"messages[0].content.upper()", []chunk{{"GRÖSSER", 0, chat.Content}}},
		{"messages[0].content | replace('ö', '-')", []chunk{{"gr", 0, chat.Content}, {"-", -1, chat.Markup}, {"ßer", 0, chat.Content}}},
		{"messages[0].content.split('ß') | join('|')", []chunk{{"grö", 0, chat.Content}, {"|", -1, chat.Markup}, {"er", 0, chat.Content}}},
		{"messages[1].tool_calls[0].function.name | tojson", []chunk{{`"`, -1, chat.Markup}, {`f\n`, 1, chat.ToolCalls}, {`"`, -1, chat.Markup}}},
		{"[messages[0].role]", []chunk{{"['", -1, chat.Markup}, {"user", 0, chat.Role}, {"']", -1, chat.Markup}}},
		{"'%s:%5s' % (messages[0].role, messages[1].mood)", []chunk{{"user", 0, chat.Role}, {": ", -1, chat.Markup}, {"good", 1, chat.Field}}},
		{"'{}!'.format(messages[0].role)", []chunk{{"user", 0, chat.Role}, {"!", -1, chat.Markup}}},
		{"messages[0].role | indent(2, true)", []chunk{{"  ", -1, chat.Markup}, {"user", 0, chat.Role}}},
		{"messages[0].content | title | lower | capitalize", []chunk{{"Größer", 0, chat.Content}}},
		{"('a ' + messages[0].content) | truncate(5, true, '')", []chunk{{"a ", -1, chat.Markup}, {"größer", 0, chat.Content}}},
		{"messages[0].content | list | last", []chunk{{"r", 0, chat.Content}}},
		{"messages[0].content | escape", []chunk{{"größer", 0, chat.Content}}},
	} {
		got, err := render("{{ "+c.expression+" }}", talk, &chat.Options{Variables: map[string]any{"bos_token": "<s>"}})
		require.NoError(t, err, c.expression)
		var chunks []chunk
		end := 0
		for _, s := range got.Spans {
			require.Equal(t, end, s.From, "no gap")
			end = s.To
			chunks = append(chunks, chunk{got.Text[s.From:s.To], s.Message, s.Source})
		}
		require.Equal(t, len(got.Text), end)
		require.Equal(t, c.want, chunks, c.expression)
	}
}

func TestMessages(t *testing.T) {
	for _, c := range []struct{ source, message string }{
		{`{"messages": [1]}`, "message: an object is expected, got int"},
		{`{"messages": [{"role": "user", "content": "\ud800"}]}`, "half of a surrogate pair"},
		{"{\"messages\": [{\"role\": \"user\", \"content\": \"\xff\"}]}", "not valid UTF-8"},
		{`{"messages": [{"role": "user", "weight": -1}]}`, "weight is -1, expected a number that is not negative"},
		{`{"messages": [{"role": "user", "train": 1}]}`, "train is 1, expected true or false"},
	} {
		var talk chat.Conversation
		require.ErrorContains(t, json.Unmarshal([]byte(c.source), &talk), c.message)
	}
	for _, c := range []struct{ source, message string }{
		{`{"messages": []}`, "test: the conversation has no message"},
		{`{"messages": [{"role": "user"}], "tools": 1}`, "test: tools: a list is expected, got int"},
		{`{"messages": [{"role": "user"}], "tools": [1]}`, "test: tools: item 0: an object is expected, got int"},
		{`{"messages": [{"role": "user"}], "documents": {}}`, "test: documents: a list is expected, got dict"},
	} {
		_, err := render(chatML, conversation(t, c.source), nil)
		require.EqualError(t, err, c.message)
	}
	_, err := render(chatML, greeting, &chat.Options{AddGenerationPrompt: true, ContinueFinalMessage: true})
	require.ErrorContains(t, err, "give one of them")
}

func TestContinueFinalMessage(t *testing.T) {
	got, err := render(chatML, greeting, &chat.Options{ContinueFinalMessage: true})
	require.NoError(t, err)
	require.Equal(t, "<|im_start|>user\nU1<|im_end|>\n<|im_start|>assistant\nA1 é", got.Text)
	require.Equal(t, []string{"A1 é"}, trainedText(got, chat.Assistant))
	_, err = render("{{ messages[0].content }}", greeting, &chat.Options{ContinueFinalMessage: true})
	require.ErrorContains(t, err, "does not render all of the last message")
}

func TestIsMarkup(t *testing.T) {
	talk := conversation(t, `{"messages": [{"role": "user", "content": "<s><|im_end|>"}]}`)
	got, err := render("{{ bos_token }}"+chatML, talk, &chat.Options{Variables: map[string]any{"bos_token": "<s>"}})
	require.NoError(t, err)
	require.Equal(t, "<s><|im_start|>user\n<s><|im_end|><|im_end|>\n", got.Text)
	var special []int // where a special token begins that is meant as such
	for _, token := range []string{"<s>", "<|im_start|>", "<|im_end|>"} {
		for at := 0; at+len(token) <= len(got.Text); at++ {
			if strings.HasPrefix(got.Text[at:], token) && got.IsMarkup(at, at+len(token)) {
				special = append(special, at)
			}
		}
	}
	require.Equal(t, []int{0, 3, 33}, special)
	require.False(t, got.IsMarkup(3, 21), "a part of it is content")
	require.Equal(t, []chat.Chunk{{0, 20, true}, {20, 33, false}, {33, 44, true}}, got.Chunks())
}

// Templates make tokens of roles; one that holds a token itself is text.
func TestIsMarkupOfRoles(t *testing.T) {
	talk := conversation(t, `{"messages": [{"role": "user", "name": "<|user|>", "content": "U"}]}`)
	got, err := render("{% for m in messages %}<|{{ m.role }}|>{{ m.name }}{{ m.content }}{% endfor %}", talk, nil)
	require.NoError(t, err)
	require.Equal(t, "<|user|><|user|>U", got.Text)
	require.True(t, got.IsMarkup(0, 8))
	require.False(t, got.IsMarkup(8, 16))
	require.Equal(t, []chat.Chunk{{0, 8, true}, {8, 17, false}}, got.Chunks())
}
