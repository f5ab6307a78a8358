package chat

import "strings"

// callForm is a way to write tool calls.
type callForm struct {
	name  string
	about []string // parts of templates that describe the form to the model, but render no calls
	// described are the trial's calls as models that read such a description write them.
	described string

	mark  string   // begins a call, or a list of calls; "": an answer is calls or text
	drop  []string // other marks of calls
	frame []string // marks around the text of every answer

	// Calls are a header with the name, and arguments; without a header, they are JSON objects, alone or in a list.
	header    *callHeader
	arguments argumentsForm
	isList    bool // of calls with headers, behind the mark
	nameIsKey bool // of JSON objects: {name: arguments}
}

// callForms are the known forms. The first that reads a template's own calls is the template's.
var callForms = []*callForm{
	// Calls are JSON objects with a name and arguments.
	{name: "Hermes", described: "<tool_call>\n" + `{"name": "trial_one", "arguments": ` + trialArguments + `}` + "\n</tool_call>\n<tool_call>\n" + `{"name": "trial_two", "arguments": ` + moreArguments + `}` + "\n</tool_call>", mark: "<tool_call>", drop: []string{"</tool_call>"}, about: []string{"<tool_call>", `"arguments"`}},
	{name: "Mistral", mark: "[TOOL_CALLS]"},
	{name: "Granite 3", described: `<|tool_call|>[{"name": "trial_one", "arguments": ` + trialArguments + `}, {"name": "trial_two", "arguments": ` + moreArguments + `}]`, mark: "<|tool_call|>", drop: []string{"<|/tool_call|>"}, about: []string{"<|tool_call|>", "JSON list"}},
	{name: "Phi-4 mini", described: `<|tool_call|>[{"name": "trial_one", "arguments": ` + trialArguments + `}, {"name": "trial_two", "arguments": ` + moreArguments + `}]<|/tool_call|>`, mark: "<|tool_call|>", drop: []string{"<|/tool_call|>"}, about: []string{"<|tool|>", "<|/tool|>"}},
	{name: "Nemotron Nano 2", mark: "<TOOLCALL>", drop: []string{"</TOOLCALL>"}},
	{name: "Jamba", mark: "<tool_calls>", drop: []string{"</tool_calls>"}},
	{name: "FireFunction", described: `functools[{"name": "trial_one", "arguments": ` + trialArguments + `}, {"name": "trial_two", "arguments": ` + moreArguments + `}]`, mark: "functools", about: []string{"functools["}},
	{name: "GigaChat 3.1", mark: "<|function_call|>"},
	{name: "GigaChat 3", mark: "function call<|role_sep|>", drop: []string{"<|message_sep|>"}},
	{name: "Cohere", mark: "<|START_ACTION|>", drop: []string{"<|END_ACTION|>"}, frame: []string{"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"}},
	{name: "Apertus", mark: "<|tools_prefix|>", drop: []string{"<|tools_suffix|>"}, nameIsKey: true},
	{name: "Llama 3", drop: []string{"<|python_tag|>", "<|python_start|>", "<|python_end|>"}},

	// A header has the name, and the arguments are a JSON object.
	{
		name: "Mistral 11", mark: "[TOOL_CALLS]",
		header: newCallHeader(`\[TOOL_CALLS\](?P<name>[^\[{\s]+)(?:\[CALL_ID\](?P<id>[^\[]+))?\[ARGS\]\s*(){`), arguments: jsonArguments{},
	},
	{
		name: "DeepSeek R1", described: "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>trial_one\n```json\n" + trialArguments + "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>trial_two\n```json\n" + moreArguments + "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
		mark: "<｜tool▁call▁begin｜>", about: []string{"<｜tool▁call▁begin｜>", "```json"},
		drop:   []string{"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "```<｜tool▁call▁end｜>", "<｜tool▁call▁end｜>"},
		header: newCallHeader("<｜tool▁call▁begin｜>\\w+<｜tool▁sep｜>(?P<name>\\S+)\\s*```json\\s*(){"), arguments: jsonArguments{},
	},
	{
		name: "DeepSeek V3.1", described: "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>trial_one<｜tool▁sep｜>" + trialArguments + "<｜tool▁call▁end｜><｜tool▁call▁begin｜>trial_two<｜tool▁sep｜>" + moreArguments + "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
		mark: "<｜tool▁call▁begin｜>", about: []string{"<｜tool▁call▁begin｜>"},
		drop:   []string{"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁end｜>"},
		header: newCallHeader(`<｜tool▁call▁begin｜>(?P<name>[^<\s]+)<｜tool▁sep｜>\s*(){`), arguments: jsonArguments{},
	},
	{
		name: "Kimi K2", described: "<|tool_calls_section_begin|><|tool_call_begin|>functions.trial_one:0<|tool_call_argument_begin|>" + trialArguments + "<|tool_call_end|><|tool_call_begin|>functions.trial_two:1<|tool_call_argument_begin|>" + moreArguments + "<|tool_call_end|><|tool_calls_section_end|>",
		mark: "<|tool_call_begin|>", about: []string{"<|tool_call_argument_begin|>"},
		drop:   []string{"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_end|>"},
		header: newCallHeader(`<\|tool_call_begin\|>\s*(?P<id>(?:functions\.)?(?P<name>[^:<\s]+)(?::\d+)?)\s*<\|tool_call_argument_begin\|>\s*(){`), arguments: jsonArguments{},
	},
	{
		name: "Functionary 3.1", described: `<function=trial_one>` + trialArguments + `</function><function=trial_two>` + moreArguments + `</function>`,
		mark: "<function=", drop: []string{"</function>"}, about: []string{"<function=", "{{parameters}}"},
		header: newCallHeader(`<function=(?P<name>[^>\s]+)>\s*(){`), arguments: jsonArguments{},
	},
	{
		name: "Functionary 3.2", mark: ">>>", drop: []string{">>>all\n"},
		header: newCallHeader(`>>>(?P<name>\S+)\n(){`), arguments: jsonArguments{},
	},
	{
		name: "Solar Open", mark: "<|tool_call:begin|>", drop: []string{"<|tool_calls|>", "<|tool_call:end|>"},
		header: newCallHeader(`<\|tool_call:begin\|>(?P<id>[^<]*)<\|tool_call:name\|>(?P<name>[^<]+)<\|tool_call:args\|>\s*(){`), arguments: jsonArguments{},
	},

	// Each parameter has mark-up of its own.
	{
		name: "Qwen3-Coder", mark: "<function=", drop: []string{"<tool_call>", "</tool_call>", "<seed:tool_call>", "</seed:tool_call>"},
		header:    newCallHeader(`<function=(?P<name>[^>\s]+)>()\s*<(?:parameter=|/function>)`),
		arguments: newParameters(`<parameter=(?P<key>[^>\n]+)>\n?`, "\n", "</parameter>", `</function>`),
	},
	glmForm("GLM", ""),
	glmForm("Hunyuan 3", ":opensource"),
	invokeForm("MiniMax M2", "", "<minimax:tool_call>", "</minimax:tool_call>"),
	invokeForm("DeepSeek V3.2", "｜DSML｜", "<｜DSML｜function_calls>", "</｜DSML｜function_calls>", "<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"),
	invokeForm("Muse", "atem:", "<atem:function_calls>", "</atem:function_calls>"),
	{
		name: "MiniCPM 5", mark: "<function name=",
		header:    newCallHeader(`<function name="(?P<name>[^"]+)">()`),
		arguments: newParameters(`<param name="(?P<key>[^"]+)">(?:<!\[CDATA\[)?`, "]]>", "</param>", `</function>`),
	},
	{
		name: "Kimi K3", mark: "<|open|>call ", drop: []string{"<|open|>tools<|sep|>", "<|close|>tools<|sep|>"},
		frame:     []string{"<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"},
		header:    newCallHeader(`<\|open\|>call tool="(?P<name>[^"]+)"[^<]*<\|sep\|>()`),
		arguments: newParameters(`<\|open\|>argument key="(?P<key>[^"]+)"(?: type="(?P<type>\w+)")?<\|sep\|>`, "", "<|close|>argument<|sep|>", `<\|close\|>call<\|sep\|>`),
	},

	// Arguments have a notation of their own.
	{
		name: "Gemma 4", mark: "<|tool_call>", drop: []string{"<tool_call|>"},
		header: newCallHeader(`<\|tool_call>call:(?P<name>[^{\s]+)(){`), arguments: notation{textMark: `<|"|>`},
	},
	{
		name: "LFM2", mark: "<|tool_call_start|>", drop: []string{"<|tool_call_end|>"}, about: []string{"<|tool_list_start|>"},
		header: newCallHeader(`(?P<name>[\w.-]+)()\(`), arguments: notation{}, isList: true,
	},
}

// glmForm is the form of GLM since 4.5, whose tags may have a suffix.
func glmForm(name, suffix string) *callForm {
	tag := func(name string) string { return "<" + name + suffix + ">" }
	return &callForm{
		name: name, mark: tag("tool_call"), drop: []string{tag("tool_calls"), tag("/tool_calls")},
		header:    newCallHeader(tag("tool_call") + `\s*(?P<name>[^<{\s]+)\s*(?:` + tag("tool_sep") + `)?()\s*<`),
		arguments: newParameters(tag("arg_key")+`(?P<key>[^<]+)`+tag("/arg_key")+`\s*`+tag("arg_value"), "", tag("/arg_value"), tag("/tool_call")),
	}
}

// invokeForm is the form of tags named invoke and parameter, which may have a prefix.
func invokeForm(name, prefix string, around ...string) *callForm {
	return &callForm{
		name: name, mark: "<" + prefix + "invoke ", drop: around,
		header: newCallHeader(`<` + prefix + `invoke name="(?P<name>[^"]+)">()`),
		arguments: newParameters(`<`+prefix+`parameter name="(?P<key>[^"]+)"(?: string="(?P<isText>true|false)")?>`,
			"", "</"+prefix+"parameter>", `</`+prefix+`invoke>`),
	}
}

// Calls of a trial.
const (
	trialTools = `[{"type": "function", "function": {"name": "trial_one", "description": "D", "parameters": {"type": "object", "properties": {` +
		`"first_key": {"type": "string", "description": "D"}, "second_key": {"type": "integer", "description": "D"}}, "required": ["first_key"]}}},` +
		`{"type": "function", "function": {"name": "trial_two", "description": "D", "parameters": {"type": "object", "properties": {` +
		`"third_key": {"type": "string", "description": "D"}}, "required": []}}}]`
	trialCalls = `{"id": "call00001", "type": "function", "function": {"name": "trial_one", "arguments": ` + trialArguments + `}}`
	moreCalls  = `, {"id": "call00002", "type": "function", "function": {"name": "trial_two", "arguments": ` + moreArguments + `}}`

	trialArguments = `{"first_key": "value of one", "second_key": 7}`
	moreArguments  = `{"third_key": "value of two"}`
)

// callForm returns the form that reads the calls of a trial as the template renders them, or that the template describes;
// nil if there is none.
func (t *Template) callForm(forms Forms, o Options) *callForm {
	for _, calls := range []string{trialCalls + moreCalls, trialCalls} {
		prompt, answer := t.tryCalls(forms, o, calls)
		for _, f := range callForms {
			if f.readsTrial(prompt, answer, calls != trialCalls) {
				return f
			}
		}
	}
	for _, f := range callForms {
		if f.isAbout(t.Source()) {
			return f
		}
	}
	return nil
}

// tryCalls returns the generation prompt, and calls as the template renders them behind it. If they do not begin with the
// prompt, that is "", and the calls are the whole turn; all is "" if the template rejects them.
func (t *Template) tryCalls(forms Forms, o Options, calls string) (asked, answered string) {
	asks := &Conversation{Messages: []Message{NewMessage("user", trialQuestion)}, Tools: []byte(trialTools)}
	answer := NewMessage("assistant", "")
	if answer.Set("tool_calls", []byte("["+calls+"]")) != nil {
		return "", ""
	}
	both := &Conversation{Messages: append(asks.Messages, answer), Tools: asks.Tools}
	rendered, err := t.Render(forms.Convert(both), &o)
	if err != nil {
		return "", ""
	}
	if prompt, err := t.RenderPrompt(forms.Convert(asks), &o); err == nil {
		if rest, ok := strings.CutPrefix(rendered.Text, prompt.Text); ok {
			return prompt.Text, rest
		}
	}
	_, turn, _ := strings.Cut(rendered.Text, trialQuestion)
	return "", turn
}

// readsTrial reports whether the form reads the calls of a trial.
func (f *callForm) readsTrial(prompt, text string, both bool) bool {
	r := newCallReader(f, prompt, []byte(trialTools))
	r.write(text)
	r.end()
	want := []ToolCall{{Name: "trial_one", Arguments: `{"first_key":"value of one","second_key":7}`}}
	if both {
		want = append(want, ToolCall{Name: "trial_two", Arguments: `{"third_key":"value of two"}`})
	}
	if len(r.calls) != len(want) {
		return false
	}
	for i, c := range r.calls {
		if c.Name != want[i].Name || strings.NewReplacer(`": `, `":`, `, "`, `,"`).Replace(c.Arguments) != want[i].Arguments {
			return false
		}
	}
	return true
}

// isAbout reports whether a template describes the form.
func (f *callForm) isAbout(source string) bool {
	for _, part := range f.about {
		if !strings.Contains(source, part) {
			return false
		}
	}
	return f.about != nil
}
