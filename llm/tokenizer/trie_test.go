package tokenizer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/llm/tokenizer"
)

// The trie spells each shown token once, and the sizes of its subtrees skip exactly what begins alike.
func TestTrie(t *testing.T) {
	for _, name := range []string{"spm", "spm2", "bpe-gpt-2", "bpe2-qwen2"} {
		v := goldenTokenizer(t, name)
		nodes := v.Trie()
		var path []byte
		spelt := map[tokenizer.ID]string{}
		for i, n := range nodes {
			path = append(path[:n.Depth], n.Byte)
			if n.Token != tokenizer.None {
				require.NotContains(t, spelt, n.Token, name)
				spelt[n.Token] = string(path)
			}
			end := i + 1
			for end < len(nodes) && nodes[end].Depth > n.Depth {
				end++
			}
			require.EqualValues(t, end-i, n.Size, "%s, node %d", name, i)
		}
		for id := range tokenizer.ID(v.NumTokens()) {
			piece, shown := string(v.Piece(id)), !v.IsSpecial(id) && len(v.Piece(id)) > 0
			got, has := spelt[id]
			require.Equal(t, shown, has, "%s, token %d", name, id)
			if has {
				require.Equal(t, piece, got, "%s, token %d", name, id)
			}
		}
	}
}
