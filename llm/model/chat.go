package model

import (
	"errors"
	"fmt"

	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/tokenizer"
)

// ErrNoChatTemplate is a model whose file has no chat template.
var ErrNoChatTemplate = errors.New("the model has no chat template")

const chatTemplateKey = "tokenizer.chat_template"

// ChatTemplate parses the chat template of the model's file. Errors in it begin with the
// name of the file.
func (m *Model) ChatTemplate() (*chat.Template, error) {
	if err := m.CheckOpen(); err != nil {
		return nil, err
	}
	if m.gguf == nil {
		return nil, ErrNoChatTemplate
	}
	v, ok := m.gguf.Value(chatTemplateKey)
	if !ok || v == "" {
		return nil, fmt.Errorf("%s: %w (key %s)", m.Path, ErrNoChatTemplate, chatTemplateKey)
	}
	source, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("%s: key %s is a %T, want a string", m.Path, chatTemplateKey, v)
	}
	return chat.Parse(m.Path, source)
}

// ChatVariables are the names that chat templates have from the vocabulary: bos_token, eos_token, unk_token and
// pad_token, as far as there are such tokens. They are nil without a vocabulary.
func (m *Model) ChatVariables() map[string]any {
	t := m.Tokenizer
	if t == nil {
		return nil
	}
	variables := map[string]any{}
	for name, id := range map[string]tokenizer.ID{
		"bos_token": t.BOS(), "eos_token": t.EOS(), "unk_token": t.Unknown(), "pad_token": t.Padding(),
	} {
		if id != tokenizer.None {
			variables[name] = t.TokenText(id)
		}
	}
	return variables
}
