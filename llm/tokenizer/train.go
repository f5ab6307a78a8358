package tokenizer

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// TrainOptions describe the vocabulary that [TrainBPE] makes.
type TrainOptions struct {
	// VocabSize is the target number of tokens, including special ones. Text with few repetitions gives fewer.
	VocabSize int
	// Pre names the split patterns, see [PreTokenizers]; "" means "gpt-2".
	Pre string
	// Special are the texts of control tokens, which come last in the vocabulary. Their occurrences in the texts
	// separate documents and are not trained on. If empty, there is one, "<|endoftext|>".
	Special []string
	// BOS and EOS are two of Special. Each defaults to the first.
	BOS, EOS string
	// AddBOS and AddEOS are copied to the Config.
	AddBOS, AddEOS bool
	// MinCount is the minimum number of occurrences of a pair to be merged; 0 means 2.
	MinCount int
}

// DefaultSpecial is the special token of TrainBPE if none is given.
const DefaultSpecial = "<|endoftext|>"

// TrainBPE makes a byte-level BPE vocabulary from texts: all 256 bytes, so that any text can be encoded, then the
// most frequent pairs of neighbours, merged one after the other. The order of the texts does not affect the
// vocabulary.
//
// It holds the distinct words of the texts in memory, not the texts.
func TrainBPE(texts iter.Seq[string], opts TrainOptions) (Config, error) {
	if texts == nil {
		return Config{}, errors.New("tokenizer: the sequence of texts to train on is nil")
	}
	if opts.Pre == "" {
		opts.Pre = "gpt-2"
	}
	if len(opts.Special) == 0 {
		opts.Special = []string{DefaultSpecial}
	}
	if opts.MinCount == 0 {
		opts.MinCount = 2
	}
	rule, err := lookupPre(opts.Pre)
	if err != nil {
		return Config{}, err
	}
	if rule.chars {
		return Config{}, fmt.Errorf("tokenizer: the pre-tokenizer %q is for vocabularies of characters, but training makes one of bytes", opts.Pre)
	}
	cfg, err := DefaultConfig(ModelBPE, canonicalPre(opts.Pre))
	if err != nil {
		return Config{}, err
	}
	if err := opts.validate(); err != nil {
		return Config{}, err
	}
	counts := countWords(texts, rule.split, opts.Special)
	if len(counts) == 0 {
		return Config{}, errors.New("tokenizer: the texts to train on are empty")
	}
	tr := newTrainer(counts, opts.Special)
	tr.run(opts.VocabSize-len(opts.Special), int64(opts.MinCount))

	cfg.Tokens = append(tr.tokens, opts.Special...)
	cfg.Merges = tr.merges
	cfg.Types = slices.Repeat([]TokenType{Normal}, len(cfg.Tokens))
	for i, text := range opts.Special {
		id := len(tr.tokens) + i
		cfg.Types[id] = Control
		if text == opts.BOS || opts.BOS == "" && i == 0 {
			cfg.BOS = ID(id)
		}
		if text == opts.EOS || opts.EOS == "" && i == 0 {
			cfg.EOS = ID(id)
		}
	}
	cfg.AddBOS, cfg.AddEOS = opts.AddBOS, opts.AddEOS
	return cfg, nil
}

func (o *TrainOptions) validate() error {
	if least := 256 + len(o.Special); o.VocabSize < least {
		return fmt.Errorf("tokenizer: VocabSize is %d, want at least %d for 256 bytes and %d special tokens",
			o.VocabSize, least, len(o.Special))
	}
	if o.MinCount < 0 {
		return fmt.Errorf("tokenizer: MinCount is %d, want 1 or more", o.MinCount)
	}
	for i, text := range o.Special {
		if text == "" || slices.Index(o.Special, text) != i {
			return fmt.Errorf("tokenizer: special token %d is %q, want distinct texts that are not empty", i, text)
		}
		if raw, ok := decodeBytes(text); ok && len(raw) == 1 {
			return fmt.Errorf("tokenizer: special token %d is %q, which is already the token of a byte", i, text)
		}
	}
	for _, text := range []string{o.BOS, o.EOS} {
		if text != "" && !slices.Contains(o.Special, text) {
			return fmt.Errorf("tokenizer: %q should be BOS or EOS, but is not in Special %q", text, o.Special)
		}
	}
	return nil
}

// Longer words are counted in parts: a merge scans whole words, and text without spaces is one word.
const maxTrainWord = 256

// countWords counts the words of texts, without special tokens.
func countWords(texts iter.Seq[string], split splitter, special []string) map[string]int64 {
	counts := map[string]int64{}
	count := func(word string) {
		for len(word) > maxTrainWord {
			counts[word[:maxTrainWord]]++
			word = word[maxTrainWord:]
		}
		counts[word]++
	}
	var plain func(text string, special []string)
	plain = func(text string, special []string) {
		if len(special) == 0 {
			split(text, count)
			return
		}
		for part := range strings.SplitSeq(text, special[0]) {
			plain(part, special[1:])
		}
	}
	for text := range texts {
		plain(sanitize(text), special)
	}
	return counts
}

// A trainer holds the words as symbols, numbered like the tokens that they become.
type trainer struct {
	tokens []string
	ids    map[string]int32
	merges []string

	words  []trainWord
	counts map[uint64]int64   // of each pair of neighbours
	where  map[uint64][]int32 // words that have, or had, the pair
	queue  queue[countedPair]
	merged map[uint64]bool // pairs that have been merged
	banned map[string]bool // texts that merges must not form
}

type trainWord struct {
	symbols []int32
	count   int64
}

// A countedPair is a candidate; it is stale once its count has decreased.
type countedPair struct {
	pair  uint64
	count int64
}

// Ties go to the pair with the oldest symbols, so that the result does not depend on the order of the words.
func (a countedPair) before(b countedPair) bool {
	return a.count > b.count || a.count == b.count && a.pair < b.pair
}

func newTrainer(counts map[string]int64, special []string) *trainer {
	tr := &trainer{
		ids:    map[string]int32{},
		counts: map[uint64]int64{},
		where:  map[uint64][]int32{},
		merged: map[uint64]bool{},
		banned: map[string]bool{},
	}
	for _, text := range special {
		tr.banned[text] = true
	}
	// Printable bytes come first, as in byte-level vocabularies.
	var bytes [256]int32
	for _, hidden := range []bool{false, true} {
		for b, r := range byteRunes {
			if (r >= 256) == hidden {
				bytes[b] = tr.symbol(string(r))
			}
		}
	}
	for word, n := range counts {
		symbols := make([]int32, len(word))
		for i := range symbols {
			symbols[i] = bytes[word[i]]
		}
		w := int32(len(tr.words))
		tr.words = append(tr.words, trainWord{symbols, n})
		for i := 1; i < len(symbols); i++ {
			tr.add(pairKey(symbols[i-1], symbols[i]), n, w)
		}
	}
	for pair, n := range tr.counts {
		tr.queue.push(countedPair{pair, n})
	}
	return tr
}

// symbol returns the number of a text; two pairs can form the same text.
func (tr *trainer) symbol(text string) int32 {
	id, ok := tr.ids[text]
	if !ok {
		id = int32(len(tr.tokens))
		tr.ids[text] = id
		tr.tokens = append(tr.tokens, text)
	}
	return id
}

func (tr *trainer) add(pair uint64, n int64, word int32) {
	tr.counts[pair] += n
	if n <= 0 {
		return
	}
	words := tr.where[pair]
	if len(words) == 0 || words[len(words)-1] != word {
		tr.where[pair] = append(words, word)
	}
}

// run merges pairs until there are size tokens or no pair is frequent enough.
func (tr *trainer) run(size int, minCount int64) {
	for len(tr.tokens) < size && len(tr.queue) > 0 {
		best := tr.queue.pop()
		n := tr.counts[best.pair]
		if n < minCount {
			continue
		}
		if n < best.count {
			tr.queue.push(countedPair{best.pair, n})
			continue
		}
		left, right := int32(best.pair>>32), int32(uint32(best.pair))
		text := tr.tokens[left] + tr.tokens[right]
		if tr.banned[text] {
			continue
		}
		// A merged pair occurs again when another merge forms the text of one of its parts.
		if !tr.merged[best.pair] {
			tr.merged[best.pair] = true
			tr.merges = append(tr.merges, tr.tokens[left]+" "+tr.tokens[right])
		}
		tr.apply(best.pair, tr.symbol(text))
	}
}

// apply replaces pair by symbol in all words.
func (tr *trainer) apply(pair uint64, symbol int32) {
	grown := map[uint64]bool{} // pairs that became more frequent
	for _, w := range tr.where[pair] {
		tr.replace(w, pair, symbol, grown)
	}
	delete(tr.where, pair)
	delete(tr.counts, pair)
	for p := range grown {
		if n := tr.counts[p]; n > 0 {
			tr.queue.push(countedPair{p, n})
		}
	}
}

// replace replaces pair by symbol in one word. Only pairs next to the replacements change their counts.
func (tr *trainer) replace(w int32, pair uint64, symbol int32, grown map[uint64]bool) {
	word := &tr.words[w]
	s := word.symbols
	out := s[:0]
	for i := 0; i < len(s); i++ {
		if i+1 == len(s) || pairKey(s[i], s[i+1]) != pair {
			out = append(out, s[i])
			continue
		}
		left, right := s[i], s[i+1]
		if len(out) > 0 {
			before := out[len(out)-1]
			tr.add(pairKey(before, left), -word.count, w)
			tr.add(pairKey(before, symbol), word.count, w)
			grown[pairKey(before, symbol)] = true
		}
		if i+2 < len(s) {
			after := s[i+2]
			tr.add(pairKey(right, after), -word.count, w)
			tr.add(pairKey(symbol, after), word.count, w)
			grown[pairKey(symbol, after)] = true
		}
		out = append(out, symbol)
		i++
	}
	word.symbols = out
}
