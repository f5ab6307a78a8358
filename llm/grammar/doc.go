// Package grammar constrains generated text to a grammar: GBNF, the grammars of llama.cpp, or a JSON schema.
//
// [Parse] reads GBNF, [ParseJSONSchema] a JSON schema. Both return a [Grammar], which any number of texts share. The options
// of a text take it, see generate.Options. A [Matcher] follows one text: it has the tokens that may come next.
//
// # GBNF
//
// A grammar is a list of rules, each NAME ::= BODY up to the end of its line; the text is the rule root. Names have letters,
// digits and "-".
//
//		root   ::= answer ("," " "? answer)*   # a comment
//		answer ::= "yes" | "no" | [0-9]{1,3}
//
//	  - "text" is the text itself, [a-z_] a code point of a class, [^a-z] one outside of it, and . any code point.
//	  - x y is a sequence, x | y an alternative, ( ) groups. A group may have several lines, as may what follows | or ::=.
//	  - x*, x+, x?, x{3}, x{2,} and x{2,5} repeat x, which can be a whole "text".
//	  - <name> is the token with this text, such as <|call|>, which may be a control token; <[12]> is the token with the ID 12;
//	    !<name> is any other token.
//	  - Escapes are \n \r \t \\ \" \[ \] \- and \xFF \uFFFF \U0010FFFF.
//
// Beside what llama.cpp rejects, these are errors: a rule that is defined twice, an empty class, a range that ends before it
// begins, and a code point that UTF-8 cannot have.
//
// # Limits
//
// A grammar comes from a client of a server as often as from its author, so its cost is bounded. Left recursion is an error.
// A repetition is stored once per count, however it is nested. A grammar that is so ambiguous that very many derivations
// must be followed at once ends the text with [ErrAmbiguous].
package grammar
