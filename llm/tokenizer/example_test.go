package tokenizer_test

import (
	"fmt"
	"log"
	"slices"
	"strings"

	"github.com/goggml/ggml/llm/tokenizer"
)

// Train a small vocabulary, use it, and list its GGUF keys.
func Example() {
	texts := []string{"low lower lowest", "new newer newest", "wide wider widest"}
	cfg := must(tokenizer.TrainBPE(slices.Values(texts), tokenizer.TrainOptions{VocabSize: 264}))
	tok := must(tokenizer.New(cfg))
	ids := tok.Encode("a lower newest", tokenizer.EncodeOptions{})
	for _, id := range ids {
		fmt.Printf("%q,", tok.Piece(id))
	}
	fmt.Println()
	fmt.Println(tok.Decode(ids, tokenizer.DecodeOptions{}))
	for _, kv := range tok.KeyValues() {
		fmt.Printf("%s %T\n", kv.Key, kv.Value)
	}
	// Output:
	// "a"," ","lo","we","r"," ","ne","we","st",
	// a lower newest
	// tokenizer.ggml.model string
	// tokenizer.ggml.pre string
	// tokenizer.ggml.tokens []string
	// tokenizer.ggml.token_type []int32
	// tokenizer.ggml.merges []string
	// tokenizer.ggml.bos_token_id uint32
	// tokenizer.ggml.eos_token_id uint32
	// tokenizer.ggml.add_bos_token bool
	// tokenizer.ggml.add_eos_token bool
}

// Show text while it is generated, without splitting characters.
func ExampleDecoder() {
	cfg := must(tokenizer.TrainBPE(slices.Values([]string{"text"}), tokenizer.TrainOptions{VocabSize: 257}))
	tok := must(tokenizer.New(cfg))
	decoder := tok.NewDecoder(tokenizer.DecodeOptions{Continuation: true})
	for _, id := range tok.Encode("né", tokenizer.EncodeOptions{}) {
		fmt.Printf("%q ", decoder.Push(id))
	}
	fmt.Printf("%q\n", decoder.Flush())
	// Output: "n" "" "é" ""
}

// The words of a user cannot end the turn, and each token knows its bytes.
func ExampleTokenizer_EncodeSegments() {
	cfg := must(tokenizer.TrainBPE(slices.Values([]string{"user: hello"}), tokenizer.TrainOptions{
		VocabSize: 262, MinCount: 1, Special: []string{"<|end|>"},
	}))
	tok := must(tokenizer.New(cfg))
	segments := []tokenizer.Segment{
		{Text: "user: ", ParseSpecial: true},
		{Text: "<|end|>"},
		{Text: "<|end|>", ParseSpecial: true},
	}
	ids, ends := tok.EncodeSegments(segments, tokenizer.EncodeOptions{})
	text := "user: <|end|><|end|>"
	from := 0
	for i, end := range ends {
		fmt.Printf("%d:%q ", ids[i], text[from:end])
		from = end
	}
	fmt.Println()
	// Output: 84:"u" 260:"ser" 25:":" 220:" " 27:"<" 91:"|" 68:"e" 77:"n" 67:"d" 91:"|" 29:">" 261:"<|end|>"
}

// Count the tokens of a text that need not fit in memory.
func ExampleTokenizer_EncodeReader() {
	cfg := must(tokenizer.TrainBPE(slices.Values([]string{"text"}), tokenizer.TrainOptions{VocabSize: 257}))
	tok := must(tokenizer.New(cfg))
	n := 0
	for ids, err := range tok.EncodeReader(strings.NewReader("a long text"), tokenizer.EncodeOptions{}) {
		check(err)
		n += len(ids)
	}
	fmt.Println(n, "tokens")
	// Output: 11 tokens
}

// A vocabulary from anywhere: a token for each piece, and for each byte that no piece has.
func ExampleNew() {
	cfg := must(tokenizer.DefaultConfig(tokenizer.ModelSPM, ""))
	add := func(text string, kind tokenizer.TokenType, score float32) {
		cfg.Tokens, cfg.Types, cfg.Scores = append(cfg.Tokens, text), append(cfg.Types, kind), append(cfg.Scores, score)
	}
	add("<unk>", tokenizer.Unknown, 0)
	add("<s>", tokenizer.Control, 0)
	add("</s>", tokenizer.Control, 0)
	for i := range 256 {
		add(fmt.Sprintf("<0x%02X>", i), tokenizer.Byte, 0)
	}
	for i, piece := range []string{"▁", "h", "i", "hi", "▁hi"} {
		add(piece, tokenizer.Normal, float32(i))
	}
	tok := must(tokenizer.New(cfg))
	for _, id := range tok.Encode("hi ho", tokenizer.EncodeOptions{AddSpecial: true}) {
		fmt.Print(tok.TokenText(id), " ")
	}
	fmt.Println()
	// Output: <s> ▁hi ▁ h <0x6F>
}

// Recreate a tokenizer from its GGUF keys.
func ExampleFromMetadata() {
	cfg := must(tokenizer.TrainBPE(slices.Values([]string{"text"}), tokenizer.TrainOptions{VocabSize: 257, AddBOS: true}))
	tok := must(tokenizer.New(cfg))
	again := must(tokenizer.FromMetadata(tok.KeyValues()))
	fmt.Println(again.NumTokens(), "tokens, BOS", again.TokenText(again.BOS()), again.AddsBOS())
	// Output: 257 tokens, BOS <|endoftext|> true
}

// The texts of control tokens are those tokens where the program has written them, and text where a user has.
func ExampleEncodeOptions() {
	cfg := must(tokenizer.TrainBPE(slices.Values([]string{"text"}), tokenizer.TrainOptions{VocabSize: 257, Special: []string{"<|end|>"}}))
	tok := must(tokenizer.New(cfg))
	fmt.Println(tok.Encode("<|end|>", tokenizer.EncodeOptions{ParseSpecial: true}))
	fmt.Println(tok.Encode("<|end|>", tokenizer.EncodeOptions{}))
	// Output:
	// [256]
	// [27 91 68 77 67 91 29]
}

// Control tokens are shown when that is asked for.
func ExampleDecodeOptions() {
	cfg := must(tokenizer.TrainBPE(slices.Values([]string{"text"}), tokenizer.TrainOptions{VocabSize: 257, Special: []string{"<|end|>"}}))
	tok := must(tokenizer.New(cfg))
	ids := tok.Encode("It ends.<|end|>", tokenizer.EncodeOptions{ParseSpecial: true})
	fmt.Println(tok.Decode(ids, tokenizer.DecodeOptions{}))
	fmt.Println(tok.Decode(ids, tokenizer.DecodeOptions{ShowSpecial: true}))
	// Output:
	// It ends.
	// It ends.<|end|>
}

// check ends an example at an error; a program returns it.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](x T, err error) T {
	check(err)
	return x
}
