package jinja

import (
	"fmt"
	"strings"
)

// Directives of strftime in the C locale, as layouts of package time.
var timeLayouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'd': "02", 'e': "_2", 'm': "01", 'y': "06", 'Y': "2006",
	'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'j': "002", 'c': "Mon Jan _2 15:04:05 2006", 'D': "01/02/06",
	'x': "01/02/06", 'X': "15:04:05", 'T': "15:04:05", 'R': "15:04", 'r': "03:04:05 PM", 'F': "2006-01-02",
}

// maxTimeFormat limits a format in bytes.
const maxTimeFormat = 1 << 10

// strftime formats the time of the rendering. As in the C library, %-d and the like drop the leading zero.
func (s *state) strftime(format string) string {
	if len(format) > maxTimeFormat {
		s.fail("a format of the time of more than %d bytes", maxTimeFormat)
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i == len(format)-1 {
			b.WriteByte(format[i])
			continue
		}
		i++
		unpadded := format[i] == '-' && i < len(format)-1
		if unpadded {
			i++
		}
		out := s.timeField(format[i])
		if unpadded {
			if out = strings.TrimLeft(out, "0 "); out == "" {
				out = "0"
			}
		}
		b.WriteString(out)
	}
	return b.String()
}

func (s *state) timeField(directive byte) string {
	if layout, ok := timeLayouts[directive]; ok {
		return s.now.Format(layout)
	}
	year, week := s.now.ISOWeek()
	day := int(s.now.Weekday())
	switch directive {
	case '%':
		return "%"
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case 'f':
		return fmt.Sprintf("%06d", s.now.Nanosecond()/1000)
	case 'C':
		return fmt.Sprintf("%02d", s.now.Year()/100)
	case 'G':
		return fmt.Sprint(year)
	case 'V':
		return fmt.Sprintf("%02d", week)
	case 'w':
		return fmt.Sprint(day)
	case 'u':
		return fmt.Sprint((day+6)%7 + 1)
	case 'U':
		return fmt.Sprintf("%02d", (s.now.YearDay()+6-day)/7)
	case 'W':
		return fmt.Sprintf("%02d", (s.now.YearDay()+6-(day+6)%7)/7)
	case 's':
		return fmt.Sprint(s.now.Unix())
	case 'z', 'Z': // datetime.now() has no time zone
		return ""
	}
	return "%" + string(directive)
}
