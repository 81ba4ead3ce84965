// Package browser has the tests that click through the service's pages in a real
// Chromium. They have the build tag browser, since they are a step of their own: make
// browser.
package browser
