package chat_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
)

const weatherTools = `[{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {
	"city": {"type": "string"}, "days": {"type": "integer"}, "more": {"type": "object"}}}}},
	{"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}}}}]`

// callsOf is a template whose calls are written by the body of a loop over them.
func callsOf(before, body, after string) string {
	return `{% for m in messages %}<|{{ m.role }}|>{% if m.content %}{{ m.content }}{% endif %}{% if m.tool_calls %}` + before +
		`{% for c in m.tool_calls %}{% set c = c.function %}` + body + `{% endfor %}` + after + `{% endif %}<|end|>{% endfor %}` +
		`{% if add_generation_prompt %}<|assistant|>{% endif %}`
}

const (
	jsonCall      = `{"name": "{{ c.name }}", "arguments": {{ c.arguments | tojson }}}`
	invokeCall    = `<$invoke name="{{ c.name }}">{% for k, v in c.arguments.items() %}<$parameter name="{{ k }}">{{ v if v is string else v | tojson }}</$parameter>{% endfor %}</$invoke>`
	reasoningTurn = `{% for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}` +
		`{% for c in m.tool_calls %}<tool_call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</tool_call>{% endfor %}<|end|>{% endfor %}` +
		`{% if add_generation_prompt %}<|assistant|><think>{% endif %}`
)

// answers are texts as models of each form write them. Templates have the least by which the form is found.
var answers = []struct {
	form, template, prompt, text string
	want                         chat.Answer
}{
	{
		"Hermes", callsOf("", "<tool_call>\n"+jsonCall+"\n</tool_call>", ""), "",
		"Let me look.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo \\\"}\\\"\", \"days\": 3}}\n</tool_call>\n<tool_call>\n{\"name\": \"get_time\", \"arguments\": {\"zone\": \"UTC\"}}\n</tool_call>",
		chat.Answer{Text: "Let me look.", Calls: []chat.ToolCall{{Name: "get_weather", Arguments: `{"city": "Oslo \"}\"", "days": 3}`}, {Name: "get_time", Arguments: `{"zone": "UTC"}`}}},
	},
	{
		"Hermes", reasoningTurn, "<|assistant|><think>",
		"A <tool_call> may help.\n</think>\n\nYes.\n\n<tool_call>{\"arguments\": {\"zone\": \"UTC\"}, \"name\": \"get_time\"}</tool_call>",
		chat.Answer{Reasoning: "A <tool_call> may help.", Text: "Yes.", Calls: []chat.ToolCall{{Name: "get_time", Arguments: `{"zone": "UTC"}`}}},
	},
	{
		"Mistral", callsOf("[TOOL_CALLS][", jsonCall+"{{ ', ' if not loop.last }}", "]"), "",
		`[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Oslo", "more": {"a": [1, {"b": null}]}}, "id": "a1B2c3D4e"}, {"name": "get_time", "arguments": {"zone": "UTC"}}]`,
		chat.Answer{Calls: []chat.ToolCall{{Name: "get_weather", Arguments: `{"city": "Oslo", "more": {"a": [1, {"b": null}]}}`}, {Name: "get_time", Arguments: `{"zone": "UTC"}`}}},
	},
	{
		"Mistral 11", callsOf("", "[TOOL_CALLS]{{ c.name }}[ARGS]{{ c.arguments | tojson }}", ""), "",
		`I look.[TOOL_CALLS]get_weather[CALL_ID]a1B2c3D4e[ARGS]{"city": "Oslo"}[TOOL_CALLS]get_time[ARGS]{"zone": "UTC"}`,
		chat.Answer{Text: "I look.", Calls: []chat.ToolCall{{ID: "a1B2c3D4e", Name: "get_weather", Arguments: `{"city": "Oslo"}`}, {Name: "get_time", Arguments: `{"zone": "UTC"}`}}},
	},
	{
		"Llama 3", callsOf("", `{"name": "{{ c.name }}", "parameters": {{ c.arguments | tojson }}}{{ '; ' if not loop.last }}`, ""), "",
		`<|python_tag|>{"name": "get_weather", "parameters": {"city": "Oslo"}}; {"type": "function", "name": "get_time", "parameters": {"zone": "UTC"}}`,
		chat.Answer{Calls: []chat.ToolCall{{Name: "get_weather", Arguments: `{"city": "Oslo"}`}, {Name: "get_time", Arguments: `{"zone": "UTC"}`}}},
	},
	{
		"Llama 3", callsOf("", `{"name": "{{ c.name }}", "parameters": {{ c.arguments | tojson }}}`, ""), "",
		`{"answer": {"name": "get_time"}}`, chat.Answer{Text: `{"answer": {"name": "get_time"}}`},
	},
	{
		"Llama 3", callsOf("", `{"name": "{{ c.name }}", "parameters": {{ c.arguments | tojson }}}`, ""), "",
		`{"name": "Ada"}`, chat.Answer{Text: `{"name": "Ada"}`},
	},
	{
		"DeepSeek R1", callsOf("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{{ c.name }}\n```json\n{{ c.arguments | tojson }}\n```<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"), "",
		"```go\n```\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"Oslo\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_time\n```json\n{\"zone\": \"UTC\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
		chat.Answer{Text: "```go\n```", Calls: []chat.ToolCall{{Name: "get_weather", Arguments: `{"city": "Oslo"}`}, {Name: "get_time", Arguments: `{"zone": "UTC"}`}}},
	},
	{
		"DeepSeek V3.1", callsOf("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>{{ c.name }}<｜tool▁sep｜>{{ c.arguments | tojson }}<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"), "",
		`Look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Oslo"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>get_time<｜tool▁sep｜>{"zone": "UTC"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
		chat.Answer{Text: "Look.", Calls: []chat.ToolCall{{Name: "get_weather", Arguments: `{"city": "Oslo"}`}, {Name: "get_time", Arguments: `{"zone": "UTC"}`}}},
	},
	{
		"DeepSeek V3.2", callsOf("<｜DSML｜function_calls>", strings.ReplaceAll(invokeCall, "$", "｜DSML｜"), "</｜DSML｜function_calls>"), "",
		"<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">5 < 6\nOslo</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
		chat.Answer{Calls: []chat.ToolCall{{Name: "get_weather", Arguments: `{"city": "5 < 6\nOslo", "days": 3}`}}},
	},
	{
		"Kimi K2", callsOf("<|tool_calls_section_begin|>", "<|tool_call_begin|>functions.{{ c.name }}:{{ loop.index0 }}<|tool_call_argument_begin|>{{ c.arguments | tojson }}<|tool_call_end|>", "<|tool_calls_section_end|>"), "",
		`I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Oslo"}<|tool_call_end|><|tool_call_begin|>functions.get_time:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>`,
		chat.Answer{Text: "I look.", Calls: []chat.ToolCall{{ID: "functions.get_weather:0", Name: "get_weather", Arguments: `{"city": "Oslo"}`}, {ID: "functions.get_time:1", Name: "get_time", Arguments: `{}`}}},
	},
	{
		"Qwen3-Coder", callsOf("", "<tool_call>\n<function={{ c.name }}>\n{% for k, v in c.arguments.items() %}<parameter={{ k }}>\n{{ v if v is string else v | tojson }}\n</parameter>\n{% endfor %}</function>\n</tool_call>", ""), "",
		"I look.\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nif a < b {\n\tOslo\n}\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=more>\n{'a': [True, None], 'b': \"it's\"}\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=get_time>\n</function>\n</tool_call>",
		chat.Answer{Text: "I look.", Calls: []chat.ToolCall{{Name: "get_weather", Arguments: `{"city": "if a < b {\n\tOslo\n}", "days": 3, "more": {"a": [true, null], "b": "it's"}}`}, {Name: "get_time", Arguments: `{}`}}},
	},
	{
		"GLM", callsOf("", "<tool_call>{{ c.name }}\n{% for k, v in c.arguments.items() %}<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v if v is string else v | tojson }}</arg_value>\n{% endfor %}</tool_call>", ""), "",
		"I look.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call><tool_call>get_time<arg_key>zone</arg_key><arg_value>UTC</arg_value></tool_call>",
		chat.Answer{Text: "I look.", Calls: []chat.ToolCall{{Name: "get_weather", Arguments: `{"city": "Oslo", "days": 3}`}, {Name: "get_time", Arguments: `{"zone": "UTC"}`}}},
	},
	{
		"MiniMax M2", callsOf("<minimax:tool_call>", strings.ReplaceAll(invokeCall, "$", ""), "</minimax:tool_call>"), "",
		"<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Oslo</parameter>\n<parameter name=\"days\">3</parameter>\n</invoke>\n<invoke name=\"get_time\">\n</invoke>\n</minimax:tool_call>",
		chat.Answer{Calls: []chat.ToolCall{{Name: "get_weather", Arguments: `{"city": "Oslo", "days": 3}`}, {Name: "get_time", Arguments: `{}`}}},
	},
	{
		"Gemma 4", callsOf("", `<|tool_call>call:{{ c.name }}{ {%- for k, v in c.arguments.items() %}{{ k }}:{{ '<|"|>' + v + '<|"|>' if v is string else v }}{{ ',' if not loop.last }}{% endfor -%} }<tool_call|>`, ""), "",
		`<|tool_call>call:get_weather{city:<|"|>Oslo "a{,"<|"|>,days:3,more:{a:[1,True,None]}}<tool_call|><|tool_call>call:get_time{}<tool_call|>`,
		chat.Answer{Calls: []chat.ToolCall{{Name: "get_weather", Arguments: `{"city": "Oslo \"a{,\"", "days": 3, "more": {"a": [1, true, null]}}`}, {Name: "get_time", Arguments: `{}`}}},
	},
	{
		"LFM2", "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}{{ '<|tool_list_start|>' if tools }}", "",
		`<|tool_call_start|>[get_weather(city='Oslo "a"', days=3, more={"a": [True]}), get_time(zone="it's")]<|tool_call_end|>I look.`,
		chat.Answer{Text: "I look.", Calls: []chat.ToolCall{{Name: "get_weather", Arguments: `{"city": "Oslo \"a\"", "days": 3, "more": {"a": [true]}}`}, {Name: "get_time", Arguments: `{"zone": "it's"}`}}},
	},
	{
		"Cohere", callsOf("<|START_ACTION|>[", `{"tool_call_id": "0", "tool_name": "{{ c.name }}", "parameters": {{ c.arguments | tojson }}}{{ ',' if not loop.last }}`, "]<|END_ACTION|>{# <|END_THINKING|> #}"), "",
		"<|START_THINKING|>I look.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\"}}\n]<|END_ACTION|>",
		chat.Answer{Reasoning: "I look.", Calls: []chat.ToolCall{{Name: "get_weather", Arguments: `{"city": "Oslo"}`}}},
	},
	{
		"Cohere", callsOf("<|START_ACTION|>[", `{"tool_call_id": "0", "tool_name": "{{ c.name }}", "parameters": {{ c.arguments | tojson }}}{{ ',' if not loop.last }}`, "]<|END_ACTION|>{# <|END_THINKING|> #}"), "",
		"<|START_THINKING|>I know.<|END_THINKING|><|START_RESPONSE|>Rain.<|END_RESPONSE|>", chat.Answer{Reasoning: "I know.", Text: "Rain."},
	},
	{
		"Granite 3", `{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}{{ 'Write <|tool_call|> and a JSON list.' if tools }}`, "",
		`<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Oslo"}}]`, chat.Answer{Calls: []chat.ToolCall{{Name: "get_weather", Arguments: `{"city": "Oslo"}`}}},
	},
	{
		"Nemotron Nano 2", callsOf("<TOOLCALL>[", jsonCall+"{{ ', ' if not loop.last }}", "]</TOOLCALL>"), "",
		`<TOOLCALL>[{"name": "get_weather", "arguments": {"city": "Oslo"}}, {"name": "get_time", "arguments": {}}]</TOOLCALL>`,
		chat.Answer{Calls: []chat.ToolCall{{Name: "get_weather", Arguments: `{"city": "Oslo"}`}, {Name: "get_time", Arguments: `{}`}}},
	},
	{
		"Functionary 3.1", callsOf("", "<function={{ c.name }}>{{ c.arguments | tojson }}</function>", ""), "",
		`<function=get_weather>{"city": "Oslo"}</function><function=get_time>{"zone": "UTC"}</function>`,
		chat.Answer{Calls: []chat.ToolCall{{Name: "get_weather", Arguments: `{"city": "Oslo"}`}, {Name: "get_time", Arguments: `{"zone": "UTC"}`}}},
	},
	{
		"Functionary 3.2", callsOf("", ">>>{{ c.name }}\n{{ c.arguments | tojson }}", ""), "<|assistant|>>>>",
		"all\nI look.>>>get_weather\n{\"city\": \"Oslo\"}", chat.Answer{Text: "I look.", Calls: []chat.ToolCall{{Name: "get_weather", Arguments: `{"city": "Oslo"}`}}},
	},
	{
		"Apertus", callsOf("<|tools_prefix|>[", `{"{{ c.name }}": {{ c.arguments | tojson }}}{{ ', ' if not loop.last }}`, "]<|tools_suffix|>"), "",
		`<|tools_prefix|>[{"get_weather": {"city": "Oslo"}}]<|tools_suffix|>`, chat.Answer{Calls: []chat.ToolCall{{Name: "get_weather", Arguments: `{"city": "Oslo"}`}}},
	},
	{
		"Harmony", `{% for m in messages %}<|start|>{{ m.role }}<|channel|>final<|message|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}`, "<|start|>assistant",
		`<|channel|>analysis<|message|>The weather.<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Oslo"}<|call|>`,
		chat.Answer{Reasoning: "The weather.", Text: "I look.", Calls: []chat.ToolCall{{Name: "get_weather", Arguments: `{"city": "Oslo"}`}}},
	},
	{
		"Harmony", `{% for m in messages %}<|start|>{{ m.role }}<|channel|>final<|message|>{{ m.content }}<|end|>{% endfor %}`, "<|start|>assistant",
		`<|channel|>analysis<|message|>Easy.<|end|><|start|>assistant<|channel|>final<|message|>Rain.<|return|>`, chat.Answer{Reasoning: "Easy.", Text: "Rain."},
	},
	{
		"Kimi K3", callsOf("<|open|>tools<|sep|>", `<|open|>call tool="{{ c.name }}" index="{{ loop.index }}"<|sep|>{% for k, v in c.arguments.items() %}<|open|>argument key="{{ k }}" type="{{ 'string' if v is string else 'number' }}"<|sep|>{{ v }}<|close|>argument<|sep|>{% endfor %}<|close|>call<|sep|>`, "<|close|>tools<|sep|>"), "",
		`<|open|>response<|sep|>I look.<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|><|open|>argument key="city" type="string"<|sep|>3<|close|>argument<|sep|><|open|>argument key="days" type="number"<|sep|>3<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>`,
		chat.Answer{Text: "I look.", Calls: []chat.ToolCall{{Name: "get_weather", Arguments: `{"city": "3", "days": 3}`}}},
	},
	// Anything but a call is text, and a call that ends too early has no valid arguments.
	{
		"Hermes", callsOf("", "<tool_call>\n"+jsonCall+"\n</tool_call>", ""), "",
		"Write <tool_call> or <tool_ca: 5 < 6.\n", chat.Answer{Text: "Write <tool_call> or <tool_ca: 5 < 6.\n"},
	},
	{
		"Hermes", callsOf("", "<tool_call>\n"+jsonCall+"\n</tool_call>", ""), "",
		`<tool_call>{"name": "get_time", "arguments": {"zone": "UT`, chat.Answer{Calls: []chat.ToolCall{{Name: "get_time", Arguments: `{"zone": "UT`}}},
	},
	{
		"GLM", callsOf("", "<tool_call>{{ c.name }}\n{% for k, v in c.arguments.items() %}<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v if v is string else v | tojson }}</arg_value>\n{% endfor %}</tool_call>", ""), "",
		"<tool_call>get_time\n<arg_key>zone</arg_key>\n<arg_value>UTC", chat.Answer{Calls: []chat.ToolCall{{Name: "get_time", Arguments: `{"zone": "UTC`}}},
	},
}

// Answers are read by the form of their template: whole, and in pieces of any size, during which each part only grows.
func TestAnswers(t *testing.T) {
	for _, c := range answers {
		template := need.Value(chat.Parse("test", c.template))(t)
		form := template.AnswerForm(nil)
		require.Equal(t, c.form, form.ToolCalls(), c.template)
		for _, size := range []int{len(c.text), 1, 3, 7} {
			r := form.NewReader(c.prompt, json.RawMessage(weatherTools))
			var before chat.Answer
			for from := 0; from < len(c.text); {
				to := min(len(c.text), from+size)
				for to < len(c.text) && c.text[to]&0xC0 == 0x80 { // whole characters
					to++
				}
				r.Write(c.text[from:to])
				now := r.Answer()
				requireGrows(t, before, now)
				before, from = copied(now), to
			}
			r.End()
			got := r.Answer()
			requireGrows(t, before, got)
			got = copied(got)
			for i := range got.Calls {
				require.NotEmpty(t, got.Calls[i].ID)
				if i < len(c.want.Calls) && c.want.Calls[i].ID == "" {
					got.Calls[i].ID = ""
				}
			}
			require.Equal(t, c.want, got, "%s in pieces of %d: %q", c.form, size, c.text)
		}
	}
}

func copied(a chat.Answer) chat.Answer {
	a.Calls = append([]chat.ToolCall(nil), a.Calls...)
	return a
}

func requireGrows(t *testing.T, before, now chat.Answer) {
	t.Helper()
	require.True(t, strings.HasPrefix(now.Text, before.Text), "%q, then %q", before.Text, now.Text)
	require.True(t, strings.HasPrefix(now.Reasoning, before.Reasoning), "%q, then %q", before.Reasoning, now.Reasoning)
	require.GreaterOrEqual(t, len(now.Calls), len(before.Calls))
	for i, c := range before.Calls {
		require.Equal(t, c.ID, now.Calls[i].ID)
		require.Equal(t, c.Name, now.Calls[i].Name)
		require.True(t, strings.HasPrefix(now.Calls[i].Arguments, c.Arguments), "%q, then %q", c.Arguments, now.Calls[i].Arguments)
	}
}

// Without tools, and of a template that has no form of calls, calls are text.
func TestAnswersWithoutTools(t *testing.T) {
	text := `<tool_call>{"name": "get_time", "arguments": {}}</tool_call>` + "\n"
	for template, tools := range map[string]string{callsOf("", "<tool_call>"+jsonCall+"</tool_call>", ""): "", chatML: weatherTools} {
		r := need.Value(chat.Parse("test", template))(t).AnswerForm(nil).NewReader("", json.RawMessage(tools))
		r.Write(text)
		r.End()
		require.Equal(t, chat.Answer{Text: text}, r.Answer())
	}
}

// An answer as a message is rendered as the model has written it.
func TestAnswerMessage(t *testing.T) {
	template := need.Value(chat.Parse("test", callsOf("", "<tool_call>"+jsonCall+"</tool_call>", "")))(t)
	text := `Look.<tool_call>{"name": "get_time", "arguments": {"zone": "UTC"}}</tool_call>`
	r := template.AnswerForm(nil).NewReader("", json.RawMessage(weatherTools))
	r.Write(text)
	r.End()
	message := r.Answer().Message()
	assert.Equal(t, []string{"get_time"}, message.Calls())
	talk := template.Forms(nil).Convert(&chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "Q"), message}})
	require.Equal(t, "<|user|>Q<|end|><|assistant|>"+text+"<|end|>", need.Value(template.Render(talk, nil))(t).Text)
}

// FuzzAnswers reads texts by all forms: whole and by characters they have the same parts, which only grow.
func FuzzAnswers(f *testing.F) {
	for _, c := range answers {
		f.Add(c.text)
	}
	f.Add(`{"name":"get_weather"0`)
	var forms []*chat.AnswerForm
	for _, c := range answers {
		template, err := chat.Parse("test", c.template)
		require.NoError(f, err)
		forms = append(forms, template.AnswerForm(nil))
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "\uFFFD")
		for _, form := range forms {
			whole, pieces := form.NewReader("", json.RawMessage(weatherTools)), form.NewReader("", json.RawMessage(weatherTools))
			whole.Write(text)
			whole.End()
			var before chat.Answer
			for _, c := range text {
				pieces.Write(string(c))
				now := pieces.Answer()
				requireGrows(t, before, now)
				before = copied(now)
			}
			pieces.End()
			requireGrows(t, before, pieces.Answer())
			a, b := copied(whole.Answer()), copied(pieces.Answer())
			for _, x := range []chat.Answer{a, b} {
				for i := range x.Calls {
					x.Calls[i].ID = ""
				}
			}
			require.Equal(t, a, b, form.ToolCalls())
		}
	})
}
