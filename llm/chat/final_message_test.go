package chat_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
)

func TestContinueFinalMessage(t *testing.T) {
	got := need.Value(render(chatML, greeting, &chat.Options{ContinueFinalMessage: true}))(t)
	require.Equal(t, "<|im_start|>user\nU1<|im_end|>\n<|im_start|>assistant\nA1 é", got.Text)
	require.Equal(t, []string{"A1 é"}, trainedText(got, chat.Assistant))
	_, err := render("{{ messages[0].content }}", greeting, &chat.Options{ContinueFinalMessage: true})
	require.ErrorContains(t, err, "does not render all of the last message")
}
