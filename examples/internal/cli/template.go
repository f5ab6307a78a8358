package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/goggml/ggml/llm/chat"
)

// ReadTemplate parses the chat template in the file that a flag names.
func ReadTemplate(flag, path string) (*chat.Template, error) {
	source, err := ReadText(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	template, err := chat.Parse(path, source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return template, nil
}

// Variables parses KEY=VALUE arguments as variables of a chat template. A value that is JSON is decoded, any
// other is a string.
func Variables(flag string, args []string) (map[string]any, error) {
	variables := map[string]any{}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		switch {
		case !ok || key == "":
			return nil, fmt.Errorf("%s %s: give it as KEY=VALUE, for example enable_thinking=false", flag, arg)
		case json.Valid([]byte(value)):
			variables[key] = json.RawMessage(value)
		default:
			variables[key] = value
		}
	}
	return variables, nil
}
