package cli

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Variables are those of a chat template, KEY=VALUE, as a flag gives them: a value in JSON
// is what it says, any other is text.
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
