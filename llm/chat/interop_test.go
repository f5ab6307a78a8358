//go:build interop

package chat_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/chattest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
)

func options(setting int) *chat.Options {
	o := &chat.Options{Variables: map[string]any{}, Now: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)}
	for name, v := range chattest.Variables {
		o.Variables[name] = v
	}
	switch setting {
	case 1:
		o.AddGenerationPrompt = true
	case 2:
		o.AddGenerationPrompt = true
		o.Variables["enable_thinking"] = false
	case 3:
		o.ContinueFinalMessage = true
	}
	return o
}

var otherWords = regexp.MustCompile(`\b[USTDC][0-9] `)

// marks returns, for each of n bytes, whether it is trained.
func marks(n int, spans [][2]int) []bool {
	m := make([]bool, n)
	for _, s := range spans {
		for i := s[0]; i < s[1]; i++ {
			m[i] = true
		}
	}
	return m
}

func trained(r *chat.Rendered, mode chat.Mode) [][2]int {
	var out [][2]int
	for _, x := range r.Trained(mode) {
		out = append(out, [2]int{x.From, x.To})
	}
	return out
}

// TestInteropTemplates compares texts, errors and masks of generation tags with transformers, for real templates.
func TestInteropTemplates(t *testing.T) {
	all := chattest.Conversations(t)
	equal, errors, masks := 0, 0, 0
	names, tags := map[string]bool{}, map[string]bool{}
	for _, want := range chattest.Render(t, chattest.Templates(t)) {
		name := filepath.Base(filepath.Dir(want.Template)) + "/" + filepath.Base(want.Template)
		names[name] = true
		c := all[want.Conversation]
		where := fmt.Sprintf("%s, %s, setting %d", name, c.Name, want.Setting)
		source := need.Value(os.ReadFile(want.Template))(t)
		var got *chat.Rendered
		template, err := chat.Parse(name, string(source))
		if err == nil {
			got, err = template.Render(&c.Conversation, options(want.Setting))
		}
		if want.Error != "" {
			errors++
			assert.Error(t, err, "%s: transformers has the error %s", where, want.Error)
			continue
		}
		if !assert.NoError(t, err, where) || !assert.Equal(t, want.Text, got.Text, where) {
			continue
		}
		equal++
		if template.HasGenerationTag() && want.Setting != 3 {
			tags[name] = true
			masks++
			assert.Equal(t, marks(len(got.Text), want.Generated), marks(len(got.Text), trained(got, chat.Assistant)), "%s: mask", where)
		}
		notTrained(t, where, got, &c.Conversation)
		if want.Setting != 3 {
			unrendered(t, where, got, &c.Conversation)
		}
	}
	t.Logf("%d templates: %d texts and %d errors equal, %d masks of %d templates with generation tags", len(names), equal, errors, masks, len(tags))
}

// notTrained checks by the text itself that only the assistant's bytes are trained: words of the test's users, systems
// and tools begin with U, S, T, D or C and a digit, words of the assistant with A or R.
func notTrained(t *testing.T, where string, r *chat.Rendered, c *chat.Conversation) {
	for _, x := range r.Trained(chat.Assistant) {
		for _, span := range r.Spans {
			if span.From >= x.To || span.To <= x.From || span.Message < 0 {
				continue
			}
			role := c.Messages[span.Message].Role()
			if span.Source == chat.Content {
				assert.Equal(t, "assistant", role, "%s: %q is trained", where, r.Text[span.From:span.To])
			}
		}
		words := otherWords.FindString(r.Text[x.From:x.To])
		assert.Empty(t, words, "%s: %q is trained", where, r.Text[x.From:x.To])
	}
}

// unrendered checks Unrendered by the text itself: it lists exactly the words that the text lacks.
func unrendered(t *testing.T, where string, r *chat.Rendered, c *chat.Conversation) {
	missing := map[string]bool{}
	for _, g := range r.Unrendered() {
		missing[fmt.Sprint(g.Message, g.Path)] = !g.Cut
		if g.Cut { // nothing else in the conversations is long enough
			assert.Contains(t, c.Messages[g.Message].Content(), "</think>", where)
		}
	}
	for i, m := range c.Messages {
		if words := strings.Fields(m.Content()); len(words) > 0 && !strings.Contains(m.Content(), "<think>") {
			assert.Equal(t, !strings.Contains(r.Text, words[0]), missing[fmt.Sprint(i, "content")], "%s: content of message %d", where, i)
		}
	}
}

// TestInteropTrainedWords states by hand what templates without generation tags train.
func TestInteropTrainedWords(t *testing.T) {
	byName := map[string]*chat.Conversation{}
	for _, c := range chattest.Conversations(t) {
		byName[c.Name] = &c.Conversation
	}
	const rome = `{"name": "get_weather", "arguments": {"city": "Rome", "unit": "celsius"}}`
	for _, c := range []struct {
		template, conversation string
		want                   []string
	}{
		{"alpaca", "system and several turns", []string{"A1 eins</s>", "A2 zwei</s>"}},
		{"aya", "several turns", []string{"A1 eins<|END_OF_TURN_TOKEN|>", "A2 zwei<|END_OF_TURN_TOKEN|>", "A3 drei<|END_OF_TURN_TOKEN|>"}},
		{"chatml", "system and several turns", []string{"A1 eins<|im_end|>", "A2 zwei<|im_end|>"}},
		{"chatml", "empty answer", []string{"<|im_end|>", "A2 much more<|im_end|>"}},
		{"command_a", "one turn", []string{"A1 The sky.<|END_RESPONSE|><|END_OF_TURN_TOKEN|>"}},
		{"command_a_tool_use", "tool call with words", []string{
			"<|START_THINKING|><|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", \"parameters\": {\"city\": \"Rome\", \"unit\": \"celsius\"}}\n]<|END_ACTION|><|END_OF_TURN_TOKEN|>",
			"<|START_RESPONSE|>A2 hot<|END_RESPONSE|><|END_OF_TURN_TOKEN|>", "<|START_RESPONSE|>A3 welcome<|END_RESPONSE|><|END_OF_TURN_TOKEN|>"}}, // always with a prompt
		{"deepseek_v2", "system and several turns", []string{"A1 eins</s>", "A2 zwei</s>"}},
		{"deepseek_v3", "system and several turns", []string{"A1 eins<｜end▁of▁sentence｜>", "A2 zwei<｜end▁of▁sentence｜>"}},
		{"exaone", "system and several turns", []string{"A1 eins[|endofturn|]", "A2 zwei[|endofturn|]"}},
		{"exaone4", "tool call with words", []string{"A1 Let me look.\n<tool_call>" + rome + "</tool_call>[|endofturn|]", "A2 hot[|endofturn|]", "A3 welcome[|endofturn|]"}},
		{"gemma3", "system and several turns", []string{"A1 eins<end_of_turn>", "A2 zwei<end_of_turn>"}},
		{"gemma4", "tool call with words", []string{"<|tool_call>call:get_weather{city:<|\"|>Rome<|\"|>,unit:<|\"|>celsius<|\"|>}<tool_call|>",
			"A1 Let me look.<turn|>", "A2 hot<turn|>", "A3 welcome<turn|>"}},
		{"jamba", "system and several turns", []string{" A1 eins<|eom|>", " A2 zwei<|eom|>"}},
		{"jamba", "tool call with words", []string{" A1 Let me look.<tool_calls>[\n    " + rome + "\n]</tool_calls><|eom|>", " A2 hot<|eom|>", " A3 welcome<|eom|>"}},
		{"llama3", "not ASCII", []string{"A1 Straße — ß ŉ ﬁ İ Σας 日本語 😀<|eot_id|>"}},
		{"llama3_2_vision", "tool call without content", []string{`{"name": "get_weather", "parameters": {"city": "Paris"}}<|eot_id|>`, "A2 sunny<|eot_id|>"}},
		{"llama4", "system and several turns", []string{"A1 eins<|eot|>", "A2 zwei<|eot|>"}},
		{"metharme", "system and several turns", []string{"A1 eins", "A2 zwei</s>"}},
		{"mistral_v1", "system and several turns", []string{" A1 eins</s>", " A2 zwei</s>"}},
		{"mistral_v3_tekken", "tool call with words", []string{
			`[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Rome", "unit": "celsius"}, "id": "call00001"}]</s>`, "A2 hot</s>", "A3 welcome</s>"}},
		{"phi_3", "system and several turns", []string{"A1 eins<|end|>", "A2 zwei<|end|>"}},
		{"qwen_25", "tool call with words", []string{"A1 Let me look.\n<tool_call>\n" + rome + "\n</tool_call><|im_end|>", "A2 hot<|im_end|>", "A3 welcome<|im_end|>"}},
		// Its prompt ends with "<think>\n\n".
		{"qwen3", "mark-up in user text", []string{"A1 <b>bold</b> & \"quoted\" 'text' \\n<|im_end|>", "</think>\n\nA2 fine<|im_end|>"}},
		// As published with the models.
		{"llama_cpp_python/openai-gpt-oss-120b", "reasoning", []string{
			"<|channel|>final<|message|>A1 answer<|end|>", "<|channel|>analysis<|message|>R2 thoughts<|end|><|start|>assistant<|channel|>final<|message|>A2 answer<|return|>"}},
		{"llama_cpp_python/openai-gpt-oss-120b", "tool call with words", []string{
			` to=functions.get_weather<|channel|>commentary json<|message|>{"city": "Rome", "unit": "celsius"}<|call|>`, "<|channel|>final<|message|>A2 hot<|end|>", "<|channel|>final<|message|>A3 welcome<|return|>"}},
		{"llama_cpp_python/Qwen-Qwen3-0.6B", "reasoning", []string{"A1 answer<|im_end|>", "<think>\nR2 thoughts\n</think>\n\nA2 answer<|im_end|>"}},
		{"llama_cpp_python/Qwen-Qwen3-0.6B", "tool call with words", []string{
			"A1 Let me look.\n<tool_call>\n" + rome + "\n</tool_call><|im_end|>", "A2 hot<|im_end|>", "<think>\n\n</think>\n\nA3 welcome<|im_end|>"}},
		{"llama_cpp_python/GLM-4.6", "reasoning", []string{"\n<think></think>\nA1 answer", "\n<think>R2 thoughts</think>\nA2 answer"}}, // <|user|> ends turns if the vocabulary says so
		{"llama_cpp_python/CohereForAI-c4ai-command-r7b-12-2024-tool_use", "reasoning", []string{
			"<|START_RESPONSE|>A1 answer<|END_RESPONSE|><|END_OF_TURN_TOKEN|>", "<|START_RESPONSE|>A2 answer<|END_RESPONSE|><|END_OF_TURN_TOKEN|>"}},
		{"llama_cpp_python/Cohere2MoE", "reasoning", []string{ // the prompt opens the reasoning
			"R1 thoughts\n<|END_THINKING|><|START_TEXT|>A1 answer<|END_TEXT|><|END_OF_TURN_TOKEN|>", "R2 thoughts<|END_THINKING|><|START_TEXT|>A2 answer<|END_TEXT|><|END_OF_TURN_TOKEN|>"}},
		{"llama_cpp_python/ibm-granite-granite-3.3-2B-Instruct", "system and several turns", []string{"A1 eins<|end_of_text|>", "A2 zwei<|end_of_text|>"}},
		{"llama_cpp_python/ibm-granite-granite-4.0", "tool call with words", []string{
			"A1 Let me look.\n<tool_call>\n" + rome + "\n</tool_call><|end_of_text|>", "A2 hot<|end_of_text|>", "A3 welcome<|end_of_text|>"}},
		{"llama_cpp_python/MiniMax-M2", "reasoning", []string{"A1 answer[e~[", "R2 thoughts\n</think>\n\nA2 answer[e~["}},
		{"llama_cpp_python/MiniMax-M2", "tool call with words", []string{
			"A1 Let me look.\n<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Rome</parameter>\n<parameter name=\"unit\">celsius</parameter>\n</invoke>\n</minimax:tool_call>[e~[",
			"A2 hot[e~[", "A3 welcome[e~["}},
		{"llama_cpp_python/ByteDance-Seed-OSS", "reasoning", []string{"<seed:think>R1 thoughts</seed:think>\nA1 answer<seed:eos>", "<seed:think>R2 thoughts</seed:think>\nA2 answer<seed:eos>"}},
		{"llama_cpp_python/Mistral-Small-3.2-24B-Instruct-2506", "tool call with words", []string{
			`[TOOL_CALLS]get_weather[CALL_ID]call00001[ARGS]{"city": "Rome", "unit": "celsius"}</s>`, "A2 hot</s>", "A3 welcome</s>"}},
		{"llama_cpp_python/google-gemma-2-2b-it", "several turns", []string{"A1 eins<end_of_turn>", "A2 zwei<end_of_turn>", "A3 drei<end_of_turn>"}},
		{"llama_cpp_python/HuggingFaceTB-SmolLM3-3B", "system and several turns", []string{"A1 eins<|im_end|>", "A2 zwei<|im_end|>"}},
		{"llama_cpp_python/inclusionai-ling-3.0-flash", "reasoning", []string{"R1 thoughts</think>A1 answer<|role_end|>", "R2 thoughts</think>A2 answer<|role_end|>"}}, // the prompt opens the reasoning
		{"llama_cpp_python/tencent-Hy3", "reasoning", []string{"A1 answer<｜hy_eos:opensource｜>", "R2 thoughts</think:opensource>A2 answer"}},                           // see OpenEnd
		{"trl/deepseekv3", "tool call as text", []string{
			"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"Oslo\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>", "A2 cold<｜end▁of▁sentence｜>"}}, // follows <｜tool▁outputs▁end｜>, the end of the prompt
		{"llama_cpp_python/NVIDIA-Nemotron-Nano-v2", "tool call without content", []string{"<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}]</TOOLCALL>\n<SPECIAL_12>", "A2 sunny\n<SPECIAL_12>"}},
	} {
		if !strings.Contains(c.template, "/") {
			c.template = "axolotl/" + c.template
		}
		template := need.Value(chat.Parse(c.template, chattest.Published(t, c.template)))(t)
		got := need.Value(template.Render(byName[c.conversation], options(0)))(t)
		assert.Equal(t, c.want, trainedText(got, chat.Assistant), "%s, %s: %s", c.template, c.conversation, got.Text)
	}
}

// TestInteropPrompts checks that an answer is trained from the end of its prompt wherever the training text begins with
// the prompt: the prompt is masked, all after it is trained. No prompt begins another turn than its answer.
func TestInteropPrompts(t *testing.T) {
	checked := 0
	for _, path := range chattest.Templates(t) {
		source := need.Value(os.ReadFile(path))(t)
		template := need.Value(chat.Parse(path, string(source)))(t)
		for _, setting := range []int{0, 2} {
			require.NoError(t, template.CheckPrompt(options(setting)), path)
		}
		if template.HasGenerationTag() || strings.HasSuffix(path, "/diffusion_gemma.jinja") { // its prompt after a tool has no header
			continue
		}
		for _, c := range chattest.Conversations(t) {
			for i, m := range c.Messages {
				for _, setting := range []int{1, 2} {
					if m.Role() == "assistant" && promptHolds(t, template, &chat.Conversation{Messages: c.Messages[:i+1], Tools: c.Tools, Documents: c.Documents}, options(setting)) {
						checked++
					}
				}
			}
		}
	}
	require.Greater(t, checked, 2000)
	t.Logf("%d answers", checked)
}

// promptHolds checks the last message of a conversation if the text begins with its prompt.
func promptHolds(t *testing.T, template *chat.Template, c *chat.Conversation, o *chat.Options) bool {
	t.Helper()
	asked := *c
	asked.Messages = c.Messages[:len(c.Messages)-1]
	prompt, err := template.Render(&asked, o)
	if err != nil {
		return false
	}
	o.AddGenerationPrompt = false
	r, err := template.Render(c, o)
	if err != nil || !strings.HasPrefix(r.Text, prompt.Text) {
		return false
	}
	trained := r.Trained(chat.Last)
	if len(trained) == 0 {
		return false
	}
	return assert.Equal(t, r.Text[len(prompt.Text):], r.Text[trained[0].From:], prompt.Text)
}

// forms are the forms of tool calls of published templates, by what their models' documentation says.
var forms = map[string]string{
	"axolotl/deepseek_v3": "DeepSeek R1", "axolotl/exaone4": "Hermes", "axolotl/jamba": "Jamba", "axolotl/llama4": "Llama 3", "axolotl/mistral_v2v3": "Mistral",
	"axolotl/qwen3": "Hermes", "axolotl/chatml": "", "axolotl/gemma3": "", "axolotl/phi_4": "", "axolotl/command_a_tool_use": "Cohere",
	"llama_cpp_python/Apertus-8B-Instruct": "Apertus", "llama_cpp_python/ByteDance-Seed-OSS": "Qwen3-Coder", "llama_cpp_python/Cohere2MoE": "Cohere",
	"llama_cpp_python/GLM-4.6": "GLM", "llama_cpp_python/GLM-4.7-Flash": "GLM", "llama_cpp_python/GigaChat3-10B-A1.8B": "GigaChat 3", "llama_cpp_python/GigaChat3.1-10B-A1.8B": "GigaChat 3.1",
	"llama_cpp_python/Kimi-K2-Instruct": "Kimi K2", "llama_cpp_python/Kimi-K2-Thinking": "Kimi K2", "llama_cpp_python/Kimi-K3": "Kimi K3", "llama_cpp_python/LFM2-8B-A1B": "LFM2",
	"llama_cpp_python/LFM2.5-8B-A1B": "LFM2", "llama_cpp_python/MiniMax-M1": "Jamba", "llama_cpp_python/MiniMax-M2": "MiniMax M2", "llama_cpp_python/Mistral-Small-3.2-24B-Instruct-2506": "Mistral 11",
	"llama_cpp_python/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "Qwen3-Coder", "llama_cpp_python/NVIDIA-Nemotron-Nano-v2": "Nemotron Nano 2",
	"llama_cpp_python/NousResearch-Hermes-3-Llama-3.1-8B-tool_use": "Hermes", "llama_cpp_python/Qwen-Qwen2.5-7B-Instruct": "Hermes", "llama_cpp_python/Qwen3-Coder": "Qwen3-Coder", "llama_cpp_python/Qwen3.5-4B": "Qwen3-Coder",
	"llama_cpp_python/StepFun3.5-Flash": "Qwen3-Coder", "llama_cpp_python/deepseek-ai-DeepSeek-R1-Distill-Llama-8B": "DeepSeek R1", "llama_cpp_python/deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "DeepSeek R1",
	"llama_cpp_python/deepseek-ai-DeepSeek-V3.1": "DeepSeek V3.1", "llama_cpp_python/deepseek-ai-DeepSeek-V3.2": "DeepSeek V3.2", "llama_cpp_python/deepseek-ai-DeepSeek-V4": "DeepSeek V3.2",
	"llama_cpp_python/fireworks-ai-llama-3-firefunction-v2": "FireFunction", "llama_cpp_python/google-gemma-4-31B-it": "Gemma 4", "llama_cpp_python/ibm-granite-granite-3.3-2B-Instruct": "Granite 3",
	"llama_cpp_python/ibm-granite-granite-4.0": "Hermes", "llama_cpp_python/meetkai-functionary-medium-v3.1": "Functionary 3.1", "llama_cpp_python/meetkai-functionary-medium-v3.2": "Functionary 3.2",
	"llama_cpp_python/meta-llama-Llama-3.1-8B-Instruct": "Llama 3", "llama_cpp_python/meta-llama-Llama-3.3-70B-Instruct": "Llama 3", "llama_cpp_python/mistralai-Ministral-3-14B-Reasoning-2512": "Mistral 11",
	"llama_cpp_python/mistralai-Mistral-Nemo-Instruct-2407": "Mistral", "llama_cpp_python/muse-glimmer": "Muse", "llama_cpp_python/openai-gpt-oss-120b": "Harmony", "llama_cpp_python/openbmb-MiniCPM5-1B": "MiniCPM 5",
	"llama_cpp_python/tencent-Hy3": "Hunyuan 3", "llama_cpp_python/unsloth-Apriel-1.5": "Jamba", "llama_cpp_python/upstage-Solar-Open-100B": "Solar Open",
	"trl/gemma4": "Gemma 4", "trl/gptoss": "Harmony", "trl/lfm2": "LFM2", "trl/nemotron_3_nano": "Qwen3-Coder", "trl/qwen3_vl": "Hermes",
}

// TestInteropAnswerForms finds the forms of published templates, and reads the calls that they render.
func TestInteropAnswerForms(t *testing.T) {
	found, read := map[string]bool{}, 0
	for _, path := range chattest.Templates(t) {
		name := filepath.Base(filepath.Dir(path)) + "/" + strings.TrimSuffix(filepath.Base(path), ".jinja")
		template, err := chat.Parse(name, string(need.Value(os.ReadFile(path))(t)))
		if err != nil {
			continue
		}
		form := template.AnswerForm(options(0))
		if want, listed := forms[name]; listed {
			found[name] = true
			assert.Equal(t, want, form.ToolCalls(), name)
		}
		if form.ToolCalls() == "" {
			continue
		}
		question, answer := chat.NewMessage("user", "Q1"), chat.NewMessage("assistant", "")
		const arguments = `{"city": "Oslo \"x\" 5 < 6", "days": 3}`
		require.NoError(t, answer.Set("tool_calls", []byte(`[{"id": "call00001", "type": "function", "function": {"name": "get_weather", "arguments": `+arguments+`}}]`)))
		talk := &chat.Conversation{Messages: []chat.Message{question, answer}, Tools: []byte(weatherTools)}
		rendered, err := template.Render(template.Forms(options(0)).Convert(talk), options(0))
		if err != nil {
			continue
		}
		prompt, text := "", rendered.Text[strings.LastIndex(rendered.Text, "Q1")+2:]
		if !strings.Contains(text, "get_weather") { // it renders no calls
			continue
		}
		asked, err := template.RenderPrompt(template.Forms(options(0)).Convert(&chat.Conversation{Messages: talk.Messages[:1], Tools: talk.Tools}), options(0))
		if rest, begins := strings.CutPrefix(rendered.Text, asked.Text); err == nil && begins {
			prompt, text = asked.Text, rest
		}
		r := form.NewReader(prompt, talk.Tools)
		r.Write(text)
		r.End()
		if calls := r.Answer().Calls; assert.Len(t, calls, 1, "%s: %s", name, text) {
			read++
			assert.Equal(t, "get_weather", calls[0].Name, name)
			assert.JSONEq(t, arguments, calls[0].Arguments, name)
		}
	}
	assert.Len(t, found, len(forms))
	assert.Greater(t, read, 90)
}
