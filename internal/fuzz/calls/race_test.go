//go:build race

package calls

func init() { raceDetector = true }
