package tokenizer

import (
	"cmp"
	"slices"
)

// A TrieNode is a byte of tokens that begin alike, in the preorder of [Tokenizer.Trie].
type TrieNode struct {
	Token ID    // that ends here, or None
	Size  int32 // number of nodes of the subtree, including this one: where to continue if the byte does not fit
	Depth int32 // bytes before this one
	Byte  byte
}

// Trie returns the bytes of all tokens that decoding shows, control tokens excluded, as a trie in preorder. Tokens with equal
// bytes have nodes of their own. It is made once; the caller must not change it.
func (t *Tokenizer) Trie() []TrieNode {
	if t.NumTokens() == 0 {
		return nil
	}
	return t.trie()
}

func (t *Tokenizer) makeTrie() []TrieNode {
	ids := make([]ID, 0, len(t.pieces))
	for id, piece := range t.pieces {
		if piece != "" && !t.IsSpecial(ID(id)) {
			ids = append(ids, ID(id))
		}
	}
	slices.SortFunc(ids, func(a, b ID) int { return cmp.Or(cmp.Compare(t.pieces[a], t.pieces[b]), cmp.Compare(a, b)) })
	var nodes []TrieNode
	var path []int // nodes of the last piece
	end := func(depth int) {
		for _, i := range path[depth:] {
			nodes[i].Size = int32(len(nodes) - i)
		}
		path = path[:depth]
	}
	last := ""
	for _, id := range ids {
		piece := t.pieces[id]
		end(min(commonPrefix(last, piece), len(piece)-1))
		for depth := len(path); depth < len(piece); depth++ {
			path = append(path, len(nodes))
			nodes = append(nodes, TrieNode{Token: None, Depth: int32(depth), Byte: piece[depth]})
		}
		nodes[len(nodes)-1].Token = id
		last = piece
	}
	end(0)
	return nodes
}

// commonPrefix returns the number of bytes with which both texts begin.
func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
