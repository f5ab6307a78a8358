package clitest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// checkMessage finds forbidden texts, and accepts texts that resemble them.
func TestCheckMessage(t *testing.T) {
	for _, line := range []string{
		"an adapter of LoRA, AdamW, RoPE, ChatML", "1 token, 11 tokens", "at least 1 is", "step 1/2  loss 1.5", "GGUF and BF16",
	} {
		require.NoError(t, checkMessage(line))
	}
	require.EqualError(t, checkMessage("a part; open it by ReadGGUF"), "a message has the Go name ReadGGUF, which its reader does not know: a part; open it by ReadGGUF")
	require.EqualError(t, checkMessage("it has 1 tokens"), `" 1 tokens": a message counts one of many: it has 1 tokens`)
	require.EqualError(t, checkMessage("all 1 records"), `" 1 records": a message counts one of many: all 1 records`)
}

// Advice is indented below its purpose, and consists of a program with its flags.
func TestAdvised(t *testing.T) {
	list := advised("use it:\n  finetune chat 'a b' --lora x\nor:\n  go run m/generate@latest '--prompt=-x'\n2 flags are wrong:\n  --x: y\n")
	require.Equal(t, []advisedLine{{"use it", "finetune chat 'a b' --lora x"}, {"or", "go run m/generate@latest '--prompt=-x'"}}, list)
	require.Equal(t, []string{"finetune chat --lora", "finetune chat"}, partsOf(list[0].line))
	require.Equal(t, []string{"generate --prompt", "generate"}, partsOf(list[1].line))
}

// Stand-ins of llama.cpp reject what llama.cpp rejects.
func TestStockFlags(t *testing.T) {
	t.Setenv(StockRun, "")
	require.Zero(t, checkFlags("llama-cli", []string{"-m", "clitest.go", "--lora", `"clitest.go"`, "--jinja", "-n", "3"}))
	for _, args := range [][]string{{"--no-such"}, {"-m"}, {"-m", "none"}, {"--lora", "clitest.go,none"}, {"-no-cnv"}} {
		require.Equal(t, 1, checkFlags("llama-cli", args), args)
	}
	require.Zero(t, checkFlags("llama-completion", []string{"-no-cnv"}))
}
