package browser_test

import (
	"strings"
	"testing"
)

// The first visit: the example of the first language runs, its output is told apart
// and coloured, its picture is shown, and what was proved before is said in words.
//
// proves part of X-22
func TestFirstVisitOnChromium(t *testing.T) {
	p := visit(t, open(t), "/").ready()
	if s := p.text("#host"); !strings.Contains(s, "sealed") {
		t.Errorf("the status is %q", s)
	}
	p.picture("first-visit")
	p.run()
	p.ended("It ran to its end.")
	p.sees("#screen .line.stdout .fg-6.bold", "step 1")
	p.sees("#screen .line.stderr", "a picture is ready")
	p.until(`document.querySelector(".picture img")?.naturalWidth === 320`)
	p.sees(".evidence summary", "Every layer held")
	p.click(".evidence summary")
	p.picture("run")
	p.clean()
}
