package chattest

import "strings"

// CallTemplates are templates by the form in which they render tool calls, or describe them: the least by which a form is found.
var CallTemplates = map[string]string{
	"Hermes":          callsOf("", "<tool_call>\n"+jsonCall+"\n</tool_call>", ""),
	"Mistral":         callsOf("[TOOL_CALLS][", `{"name": "{{ c.name }}", "arguments": {{ c.arguments | tojson }}, "id": "{{ id }}"}{{ ', ' if not loop.last }}`, "]"),
	"Granite 3":       describing("Write <|tool_call|> and a JSON list."),
	"Phi-4 mini":      describing("<|tool|>[]<|/tool|>"),
	"Nemotron Nano 2": callsOf("<TOOLCALL>[", jsonCall+"{{ ', ' if not loop.last }}", "]</TOOLCALL>"),
	"Jamba":           callsOf("<tool_calls>[\n", jsonCall+"{{ ',\n' if not loop.last }}", "\n]</tool_calls>"),
	"FireFunction":    describing("Write functools[...]"),
	"GigaChat 3.1":    callsOf("", "<|function_call|>"+jsonCall, ""),
	"GigaChat 3":      callsOf("", "function call<|role_sep|>\n"+jsonCall+"<|message_sep|>", ""),
	"Cohere":          callsOf("<|START_ACTION|>[", `{"tool_call_id": "0", "tool_name": "{{ c.name }}", "parameters": {{ c.arguments | tojson }}}{{ ',' if not loop.last }}`, "]<|END_ACTION|>{# <|END_THINKING|> #}"),
	"Apertus":         callsOf("<|tools_prefix|>[", `{"{{ c.name }}": {{ c.arguments | tojson }}}{{ ', ' if not loop.last }}`, "]<|tools_suffix|>"),
	"Llama 3":         callsOf("", `{"name": "{{ c.name }}", "parameters": {{ c.arguments | tojson }}}{{ '; ' if not loop.last }}`, ""),
	"Mistral 11":      callsOf("", "[TOOL_CALLS]{{ c.name }}[ARGS]{{ c.arguments | tojson }}", ""),
	"DeepSeek R1":     callsOf("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{{ c.name }}\n```json\n{{ c.arguments | tojson }}\n```<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"),
	"DeepSeek V3.1":   callsOf("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>{{ c.name }}<｜tool▁sep｜>{{ c.arguments | tojson }}<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"),
	"Kimi K2":         callsOf("<|tool_calls_section_begin|>", "<|tool_call_begin|>functions.{{ c.name }}:{{ loop.index0 }}<|tool_call_argument_begin|>{{ c.arguments | tojson }}<|tool_call_end|>", "<|tool_calls_section_end|>"),
	"Functionary 3.1": callsOf("", "<function={{ c.name }}>{{ c.arguments | tojson }}</function>", ""),
	"Functionary 3.2": callsOf("", ">>>{{ c.name }}\n{{ c.arguments | tojson }}", ""),
	"Solar Open":      callsOf("<|tool_calls|>", "<|tool_call:begin|>{{ id }}<|tool_call:name|>{{ c.name }}<|tool_call:args|>{{ c.arguments | tojson }}<|tool_call:end|>", ""),
	"Qwen3-Coder":     callsOf("", "<tool_call>\n<function={{ c.name }}>\n{% for k, v in c.arguments.items() %}<parameter={{ k }}>\n{{ v if v is string else v | tojson }}\n</parameter>\n{% endfor %}</function>\n</tool_call>", ""),
	"GLM":             glmCalls(""),
	"Hunyuan 3":       glmCalls(":opensource"),
	"MiniMax M2":      callsOf("<minimax:tool_call>", strings.ReplaceAll(invokeCall, "$", ""), "</minimax:tool_call>"),
	"DeepSeek V3.2":   callsOf("<｜DSML｜function_calls>", strings.ReplaceAll(strings.Replace(invokeCall, `{{ k }}"`, `{{ k }}" string="{{ 'true' if v is string else 'false' }}"`, 1), "$", "｜DSML｜"), "</｜DSML｜function_calls>"),
	"Muse":            callsOf("<atem:function_calls>", strings.ReplaceAll(invokeCall, "$", "atem:"), "</atem:function_calls>"),
	"MiniCPM 5":       callsOf("", `<function name="{{ c.name }}">{% for k, v in c.arguments.items() %}<param name="{{ k }}">{{ v if v is string else v | tojson }}</param>{% endfor %}</function>`, ""),
	"Kimi K3":         callsOf("<|open|>tools<|sep|>", `<|open|>call tool="{{ c.name }}" index="{{ loop.index }}"<|sep|>{% for k, v in c.arguments.items() %}<|open|>argument key="{{ k }}" type="{{ 'string' if v is string else 'number' }}"<|sep|>{{ v }}<|close|>argument<|sep|>{% endfor %}<|close|>call<|sep|>`, "<|close|>tools<|sep|>"),
	"Gemma 4":         callsOf("", `<|tool_call>call:{{ c.name }}{ {%- for k, v in c.arguments.items() %}{{ k }}:{{ '<|"|>' + v + '<|"|>' if v is string else v }}{{ ',' if not loop.last }}{% endfor -%} }<tool_call|>`, ""),
	"LFM2":            describing("<|tool_list_start|>"),
	"Harmony":         `{% for m in messages %}<|start|>{{ m.role }}<|channel|>final<|message|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}`,
}

const (
	jsonCall   = `{"name": "{{ c.name }}", "arguments": {{ c.arguments | tojson }}}`
	invokeCall = `<$invoke name="{{ c.name }}">{% for k, v in c.arguments.items() %}<$parameter name="{{ k }}">{{ v if v is string else v | tojson }}</$parameter>{% endfor %}</$invoke>`
)

// callsOf is a template whose calls are written by the body of a loop over them.
func callsOf(before, body, after string) string {
	return `{% for m in messages %}<|{{ m.role }}|>{% if m.content %}{{ m.content }}{% endif %}{% if m.tool_calls %}` + before +
		`{% for c in m.tool_calls %}{% set id = c.id %}{% set c = c.function %}` + body + `{% endfor %}` + after + `{% endif %}<|end|>{% endfor %}` +
		`{% if add_generation_prompt %}<|assistant|>{% endif %}`
}

// describing is a template that tells the model how to call, and renders no calls.
func describing(text string) string {
	return `{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}{{ '` + text + `' if tools }}{% if add_generation_prompt %}<|assistant|>{% endif %}`
}

func glmCalls(suffix string) string {
	return callsOf("", strings.NewReplacer("$", suffix).Replace("<tool_call$>{{ c.name }}\n{% for k, v in c.arguments.items() %}<arg_key$>{{ k }}</arg_key$>\n<arg_value$>{{ v if v is string else v | tojson }}</arg_value$>\n{% endfor %}</tool_call$>"), "")
}
