<h1>Text outside of PHP goes to stdout,</h1>
<?php
// and warnings go to stderr, without HTML.
echo "before\n";
echo $undefined;
echo [1][5] ?? 'none', "\n";
trigger_error('own', E_USER_DEPRECATED);
throw new RuntimeException('at the end');
