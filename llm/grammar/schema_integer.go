package grammar

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// largest is the largest integer of a schema without a bound, which has 16 digits as in llama.cpp.
const largest = 9_999_999_999_999_999

// integer returns the rule of integers between bounds.
func (w *schemaWriter) integer(o *object, path string) (string, error) {
	least, most := int64(math.MinInt64+1), int64(math.MaxInt64)
	hasLeast, hasMost := false, false
	for _, key := range boundsOfNumbers {
		if !o.has(key) {
			continue
		}
		isMin := strings.HasSuffix(key, "inimum")
		n, err := integerBound(o.values[key], isMin, strings.HasPrefix(key, "exclusive"))
		switch {
		case err != nil:
			return "", fmt.Errorf("%s: %s is %s; %w", at(path), key, writeJSON(o.values[key]), err)
		case isMin:
			least, hasLeast = max(least, n), true
		default:
			most, hasMost = min(most, n), true
		}
	}
	if !hasMost && least < largest {
		most = largest
	}
	if !hasLeast && most > -largest {
		least = -largest
	}
	switch {
	case !hasLeast && !hasMost:
		return w.use("integer"), nil
	case least > most:
		return "", fmt.Errorf("%s: no integer is at least %d and at most %d", at(path), least, most)
	}
	return w.rule(path, integers(least, most))
}

// integerBound returns the least or largest integer of a bound.
func integerBound(value any, isMin, exclusive bool) (int64, error) {
	text, is := value.(json.Number)
	if !is {
		return 0, errors.New("it must be a number")
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	whole := err == nil
	if !whole {
		x, err := text.Float64()
		if err != nil || math.Abs(x) > 1<<53 {
			return 0, errors.New("it must be a number of at most 53 bits, or an integer of 64")
		}
		round := math.Floor
		if isMin {
			round = math.Ceil
		}
		n, whole = int64(round(x)), x == math.Trunc(x)
	}
	if !exclusive || !whole {
		return n, nil
	}
	switch {
	case isMin && n < math.MaxInt64:
		return n + 1, nil
	case !isMin && n > math.MinInt64+1:
		return n - 1, nil
	}
	return n, nil
}

// integers returns alternatives for the integers from a to b.
func integers(a, b int64) string {
	var alternatives []string
	if a < 0 {
		from := int64(1)
		if b < 0 {
			from = -b
		}
		alternatives = append(alternatives, `"-" (`+naturals(from, -max(a, -math.MaxInt64))+")")
	}
	if b >= 0 {
		alternatives = append(alternatives, naturals(max(a, 0), b))
	}
	return strings.Join(alternatives, " | ")
}

// naturals returns alternatives for the numbers from a to b, not below 0: a group for each number of digits.
func naturals(a, b int64) string {
	var alternatives []string
	low, high := strconv.FormatInt(a, 10), strconv.FormatInt(b, 10)
	for digits := len(low); digits <= len(high); digits++ {
		from, to := "1"+strings.Repeat("0", digits-1), strings.Repeat("9", digits)
		if digits == len(low) {
			from = low
		}
		if digits == len(high) {
			to = high
		}
		alternatives = append(alternatives, digitRange(from, to))
	}
	return strings.Join(alternatives, " | ")
}

// digitRange returns alternatives for the numbers between two with equally many digits.
func digitRange(from, to string) string {
	n := len(from) - 1
	switch {
	case from == "":
		return `""`
	case strings.Trim(from, "0") == "" && strings.Trim(to, "9") == "", n == 0:
		return digits(from[0], to[0], n)
	case from[0] == to[0]:
		return digits(from[0], from[0], 0) + " (" + digitRange(from[1:], to[1:]) + ")"
	}
	first, last := from[0], to[0]
	var alternatives []string
	if strings.Trim(from[1:], "0") != "" {
		alternatives = append(alternatives, digits(first, first, 0)+" ("+digitRange(from[1:], strings.Repeat("9", n))+")")
		first++
	}
	end := ""
	if strings.Trim(to[1:], "9") != "" {
		end = digits(last, last, 0) + " (" + digitRange(strings.Repeat("0", n), to[1:]) + ")"
		last--
	}
	if first <= last {
		alternatives = append(alternatives, digits(first, last, n))
	}
	if end != "" {
		alternatives = append(alternatives, end)
	}
	return strings.Join(alternatives, " | ")
}

// digits returns a digit of a range and n more.
func digits(lo, hi byte, n int) string {
	text := "[" + string(rune(lo))
	if lo < hi {
		text += "-" + string(rune(hi))
	}
	if text += "]"; n > 0 {
		text += fmt.Sprintf(" [0-9]{%d}", n)
	}
	return text
}
