package chat_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
)

// FuzzSources renders generated templates: each byte of their text has a source, and no byte of a user is trained.
func FuzzSources(f *testing.F) {
	data := need.Value(os.ReadFile("../../internal/jinja/testdata/language.json"))(f)
	var samples []struct{ Template string }
	require.NoError(f, json.Unmarshal(data, &samples))
	for _, s := range samples {
		f.Add(s.Template)
	}
	f.Add(chatML)
	f.Add(llama)
	f.Fuzz(func(t *testing.T, source string) {
		template, err := chat.Parse("fuzz", source)
		if err != nil {
			return
		}
		got, err := template.Render(greeting, &chat.Options{Now: clock})
		if err != nil {
			return
		}
		end := 0
		for _, s := range got.Spans {
			require.Equal(t, end, s.From)
			require.Less(t, s.From, s.To)
			end = s.To
		}
		require.Equal(t, len(got.Text), end)
		if template.HasGenerationTag() { // the tags select what is trained
			return
		}
		for _, x := range got.Trained(chat.Assistant) {
			for _, s := range got.Spans {
				if s.From < x.To && s.To > x.From {
					require.False(t, s.Message == 0 && s.Source == chat.Content, "a user's text is trained")
				}
			}
		}
	})
}
