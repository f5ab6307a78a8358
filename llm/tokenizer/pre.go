package tokenizer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A preRule is the meaning of a pre-tokenizer name. Splitters cut text into words, one after the other; each tries
// its alternatives in order, in time linear in the text. Tests compare them with llama.cpp's regular expressions,
// and "make interop" compares the tokens with llama.cpp's, on a vocabulary that merges across words, so that a wrong
// cut shows.
type preRule struct {
	split splitter
	// through are characters that patterns look through to the end of the run, to decide where words before and in
	// the run end; white space by default.
	through      classSet
	chars        bool // characters are merged, not bytes
	blanks       bool // blanks are written ▁
	firstBlank   bool // the first word of a line is merged as if a blank preceded it
	ignoreMerges bool // a word that is a token as a whole is not merged
	wholeLines   bool // line feeds that are a token are not merged either
	addBOS       bool // default of Config.AddBOS
	alwaysBOS    bool // overrides the file
	noBOS        bool // no default BOS id
	cleanSpaces  bool // decoding drops spaces before punctuation
}

// The split patterns, as regular expressions:
//
//	gpt-2:     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//	llama-bpe: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//
// and so on: the test of splitters has them all, as llama.cpp writes them. What
// stands in turn splits further within the words of the step before.
var (
	splitGPT2 = isolate(gpt2Word)

	plainRest   = afterBlank(runOf(restSet))
	restLines   = withTail(plainRest, "\r\n")
	restPaths   = withTail(plainRest, "\r\n/")
	splitLlama3 = isolate(contraction, plainWord.match, numbers(3), restLines, lines)
	splitQwen2  = isolate(contraction, plainWord.match, numbers(1), restLines, lines)

	// Characters allowed before letters, and the letters.
	plainWord  = letters{before: anyClass &^ numberSet, set: letterSet}
	markedWord = letters{before: anyClass &^ numberSet, set: markedSet}
	joinedWord = letters{before: anyClass &^ numberSet, set: markedSet | setOf(classJoiner)}
	nonHanWord = letters{before: anyClass &^ (numberSet | setOf(classHan)), set: nonHanSet}
	deepWord   = letters{before: anyClass &^ punctSet, set: markedSet}

	deepRest      = afterBlank(runOf(punctSet))
	splitDeepSeek = isolate(punctuatedASCII, deepWord.match, withTail(deepRest, "\r\n"), lines)

	eachNumber     = isolate(numbers(1))
	allNumbers     = isolate(runOf(numberSet))
	splitSentences = isolate(afterBlank(sentenceMarks.runOutside))
)

var (
	splitDefault = inTurn(isolate(punctuation("$+<=>^~|")), splitGPT2, allNumbers, isolate(threeDigits))
	splitFalcon  = inTurn(isolate(punctuation("$+<=>^~|`")), splitGPT2, isolate(threeDigits))
	splitSmol    = inTurn(eachNumber, splitGPT2)

	splitQwen35   = isolate(contraction, markedWord.match, numbers(1), withTail(afterBlank(runOf(restSet&^markedSet)), "\r\n"), lines)
	splitUfakzeka = isolate(plainWord.match, numbers(1), restLines, lines)
	splitSeed     = isolate(contraction, plainWord.match, numbers(1), plainRest, lines)
	splitMiniCPM5 = inTurn(isolate(numbers(3)), isolate(contraction, plainWord.match, runOf(numberSet), restLines, lines))
	splitJais2    = inTurn(splitLlama3, spacePowers)
	splitLaguna   = inTurn(isolate(lineFeeds), splitQwen2)
	splitHorizon  = isolate(contractionLongS, joinedWord.match, numbers(3), restLines, lines)
	splitExaone   = isolate(contraction, phrase, numbers(1), withLineEnd(plainRest), lines)

	splitTekken  = isolate(plainWord.cased, numbers(1), restPaths, lines)
	splitGPT4o   = isolate(withContraction(plainWord.cased), numbers(3), restPaths, lines)
	splitGranite = isolate(withContraction(markedWord.cased), numbers(3), restPaths, lines)
	splitTinyAya = inTurn(digitGroups, isolate(withContraction(markedWord.match), numbers(3), restPaths, lines))
	splitKimi    = isolate(hanRanges.run, withContraction(nonHanWord.match), numbers(3), restLines, lines)
	splitYoutu   = inTurn(isolate(hangul.run, fullWidth.run, bopomofo.run, kanaAndHan.run),
		isolate(withContraction(markedWord.match), numbers(1), restPaths, lines))

	splitDeepSeekCoder = inTurn(isolate(newline), isolate(afterSpace(runOf(letterSet))), isolate(afterSpace(runOf(setOf(classPunct)))),
		isolate(eastern.run), eachNumber)
	splitDeepSeekLLM = inTurn(isolate(newline), isolate(afterSpace(bicameral.run)), isolate(afterSpace(printed.run)),
		trailingSpace, isolate(eastern.run), allNumbers)
	splitDeepSeek3 = inTurn(isolate(numbers(3)), isolate(kanaAndHan.run), splitDeepSeek)
	splitSpark     = inTurn(isolate(numbers(3)), isolate(kanaAndHan.run),
		isolate(punctuatedASCII, deepWord.match, deepRest, newline, spaceWord), eachNumber)
	splitAfmoe = inTurn(digitGroups, isolate(unspaced.run), splitDeepSeek)

	splitViking    = inTurn(splitSentences, eachNumber)
	splitChameleon = inTurn(isolate(imageToken), isolate(indent), eachNumber, isolate(punctMark), splitGPT2)
	splitSuperBPE  = inTurn(allNumbers, thousands)
)

// preRules has the rule of each value of tokenizer.ggml.pre.
var preRules = func() map[string]preRule {
	rules := map[string]preRule{}
	add := func(rule preRule, names string) {
		if rule.through == 0 {
			rule.through = spaceSet
		}
		for _, name := range strings.Fields(names) {
			rules[name] = rule
		}
	}
	add(preRule{split: splitDefault, cleanSpaces: true}, "default")
	add(preRule{split: splitGPT2, cleanSpaces: true}, `gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code
		roberta-bpe gigachat mpt olmo jais exaone4 a.x-4.0 mellum modern-bert`)
	add(preRule{split: splitGPT2}, "trillion granite-docling")
	add(preRule{split: splitLlama3, ignoreMerges: true, addBOS: true, cleanSpaces: true},
		"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano")
	add(preRule{split: splitLlama3, cleanSpaces: true}, "dbrx smaug-bpe")
	add(preRule{split: splitLlama3, cleanSpaces: true, noBOS: true}, "chatglm-bpe")
	add(preRule{split: splitLlama3, cleanSpaces: true, ignoreMerges: true, noBOS: true}, "glm4 glm5")
	add(preRule{split: splitMiniCPM5, cleanSpaces: true, ignoreMerges: true}, "minicpm5")
	add(preRule{split: splitQwen2}, `qwen2 deepseek-r1-qwen kormo f2llmv2 hunyuan solar-open grok-2
		bailingmoe bailingmoe2 llada-moe`)
	add(preRule{split: splitQwen2, cleanSpaces: true}, "stablelm2 megrez")
	add(preRule{split: splitQwen35}, "qwen35")
	add(preRule{split: splitUfakzeka}, "ufakzeka")
	add(preRule{split: splitSeed}, "seed-coder")
	add(preRule{split: splitJais2, cleanSpaces: true}, "jais-2")
	add(preRule{split: splitLaguna}, "laguna")
	add(preRule{split: splitHorizon}, "k2-horizon")
	add(preRule{split: splitExaone, cleanSpaces: true}, "exaone-moe")
	add(preRule{split: splitSmol}, "smollm command-r")
	add(preRule{split: splitSmol, cleanSpaces: true}, "starcoder refact codeshell exaone minerva-7b mellum2")
	add(preRule{split: splitFalcon, cleanSpaces: true}, "falcon")
	add(preRule{split: splitTekken, through: spaceSet | setOf(classUpper), ignoreMerges: true, addBOS: true}, "tekken")
	add(preRule{split: splitGPT4o, through: spaceSet | setOf(classUpper)}, "gpt-4o llama4 kanana2 talkie minimax-m2")
	add(preRule{split: splitGranite, through: spaceSet | setOf(classUpper), ignoreMerges: true}, "granite-embed-multi-97m")
	add(preRule{split: splitTinyAya, through: spaceSet | numberSet}, "tiny_aya cohere2moe")
	add(preRule{split: splitKimi}, "kimi-k2")
	add(preRule{split: splitYoutu, ignoreMerges: true}, "youtu")
	add(preRule{split: splitDeepSeekCoder}, "deepseek-coder")
	add(preRule{split: splitDeepSeekLLM}, "deepseek-llm")
	add(preRule{split: splitDeepSeek3, through: spaceSet | asciiSet}, "deepseek-v3 hunyuan-dense hy_v4 joyai-llm")
	add(preRule{split: splitSpark, through: spaceSet | asciiSet}, "spark2_5")
	add(preRule{split: splitAfmoe, through: spaceSet | asciiSet | numberSet}, "afmoe")
	add(preRule{split: splitSentences, cleanSpaces: true}, "bloom gpt3-finnish")
	add(preRule{split: splitSentences}, "poro-chat")
	add(preRule{split: splitViking}, "viking")
	add(preRule{split: splitChameleon, addBOS: true}, "chameleon")
	add(preRule{split: isolate(lineFeeds), chars: true, blanks: true, wholeLines: true, addBOS: true, alwaysBOS: true, cleanSpaces: true},
		"gemma4 granite-embed-multi-311m")
	add(preRule{split: isolate(lineFeeds), chars: true, blanks: true}, "sarvam-moe")
	add(preRule{split: inTurn(isolate(lineFeeds), isolate(blankWord)), chars: true, blanks: true, firstBlank: true, wholeLines: true, cleanSpaces: true},
		"mmbert")
	add(preRule{split: splitSuperBPE, through: numberSet}, "superbpe")
	return rules
}()

// PreTokenizers returns the names accepted as Config.Pre of a BPE model, sorted.
func PreTokenizers() []string {
	return slices.Sorted(maps.Keys(preRules))
}

// canonicalPre converts common spellings to the name that GGUF readers know.
func canonicalPre(pre string) string {
	switch pre {
	case "":
		return "default"
	case "gpt2":
		return "gpt-2"
	}
	return pre
}

func lookupPre(pre string) (preRule, error) {
	rule, ok := preRules[canonicalPre(pre)]
	if !ok {
		return preRule{}, fmt.Errorf("tokenizer: pre-tokenizer %q is not supported, known are: %s",
			pre, strings.Join(PreTokenizers(), ", "))
	}
	return rule, nil
}
