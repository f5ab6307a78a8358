package chat_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/llm/chat"
)

// FuzzTemplate gives templates that nobody would write: they are parsed and rendered, or refused with an error, in a
// bounded time; a text has the origin of each byte, and none of a user's is trained.
func FuzzTemplate(f *testing.F) {
	for _, s := range samples(f) {
		f.Add(s.Template)
	}
	f.Add(chatML)
	f.Add(llama)
	f.Fuzz(func(t *testing.T, source string) {
		start := time.Now()
		template, err := chat.Parse("fuzz", source)
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "fuzz:"), "the error has its line: %v", err)
			return
		}
		got, err := template.Render(greeting, &chat.Options{Now: clock})
		require.Less(t, time.Since(start), 20*time.Second)
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "fuzz:"), "the error has its line: %v", err)
			return
		}
		end := 0
		for _, s := range got.Spans {
			require.Equal(t, end, s.From)
			require.Less(t, s.From, s.To)
			end = s.To
		}
		require.Equal(t, len(got.Text), end)
		if utf8.ValidString(source) {
			require.True(t, utf8.ValidString(got.Text))
		}
		if template.HasGenerationTag() {
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
