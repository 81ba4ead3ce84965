<?php
// Types, enums, closures, generators, text, JSON, files, processes, signals.
declare(strict_types=1);

enum Suit: string
{
    case Hearts = 'h';
    case Spades = 's';

    public function color(): string
    {
        return match ($this) {
            self::Hearts => 'red',
            self::Spades => 'black',
        };
    }
}

final class Point implements JsonSerializable, Countable
{
    public function __construct(public readonly int $x = 0, private ?Point $next = null)
    {
    }

    public function jsonSerialize(): mixed
    {
        return ['x' => $this->x, 'next' => $this->next?->x];
    }

    public function count(): int
    {
        return 1 + ($this->next ? count($this->next) : 0);
    }
}

function squares(int $n): Generator
{
    for ($i = 1; $i <= $n; $i++) {
        $sent = yield $i => $i ** 2;
        if ($sent) {
            return $sent;
        }
    }
}

$counts = array_count_values(explode(' ', 'a glove in a box in a cell'));
uksort($counts, fn ($a, $b) => $counts[$b] <=> $counts[$a] ?: strcmp($a, $b));
echo urldecode(http_build_query($counts)), "\n";
echo Suit::from('s')->color(), ' ', Suit::tryFrom('x')?->color() ?? 'none', ' ', json_encode(new Point(1, new Point(2)), JSON_THROW_ON_ERROR), ' ', count(new Point(1, new Point(2))), "\n";
echo implode(',', iterator_to_array(squares(4))), ' ', array_sum(array_map(fn (int ...$n) => array_product($n), [1, 2], [3, 4])), "\n";
[$a, ['n' => $n]] = [1, ['n' => 5]];
echo $a + $n, ' ', json_decode('{"a":[1,{"b":"é"}]}', true)['a'][1]['b'], ' ', PHP_INT_MAX, ' ', intdiv(7, 2), ' ', sprintf('%05.2f %x %s', M_PI, 255, '→ 漢字'), "\n";
echo preg_replace('/(\w+)=(\w+)/', '$2=$1', 'key=value'), ' ', preg_match('/(?<y>\d+)-(?<m>\d+)/', '2024-02-29', $m), $m['m'], ' ', preg_match_all('/\p{L}/u', 'aé漢'), ' ', ucwords('a glove'), ' ', strrev('evolg'), "\n";
echo hash('sha256', 'abc'), ' ', base64_encode(gzcompress('x') ? 'glove' : ''), ' ', strlen(gzencode(str_repeat('glove ', 1000))) < 100 ? 'small' : 'big', ' ', bin2hex(pack('nC', 258, 3)), ' ', strlen(random_bytes(8)), ' ', ctype_digit('123') ? 'digits' : '', "\n";
echo date('Y-m-d T', 86400), ' ', (new DateTimeImmutable('2024-02-28'))->modify('+1 day')->format('D d'), ' ', date_default_timezone_get(), "\n";
try {
    intdiv(1, 0);
} catch (DivisionByZeroError $e) {
    echo get_class($e), ' ', $e->getMessage(), "\n";
} finally {
    echo "finally\n";
}
try {
    strlen(5);
} catch (TypeError $e) {
    echo get_class($e), "\n";
}
$fiber = new Fiber(function (int $x): int {
    $y = Fiber::suspend($x * 2);
    return $x + $y;
});
echo $fiber->start(5), ' ', $fiber->resume(1) ?? 'done', ' ', $fiber->getReturn(), "\n";

$file = tempnam(sys_get_temp_dir(), 'x');
file_put_contents($file, "one\ntwo → é\n");
file_put_contents($file, "three\n", FILE_APPEND | LOCK_EX);
echo dirname($file), ' ', implode('|', file($file, FILE_IGNORE_NEW_LINES)), ' ', decoct(fileperms($file) & 0777), ' ', decoct(umask()), "\n";
mkdir('d/e', recursive: true);
rename($file, 'd/moved');
symlink('moved', 'd/link');
copy('d/link', 'd/e/copy');
$found = [];
foreach (new RecursiveIteratorIterator(new RecursiveDirectoryIterator('d', FilesystemIterator::SKIP_DOTS)) as $f) {
    $found[] = (string) $f;
}
sort($found);
echo implode(' ', $found), ' ', filesize('d/e/copy'), ' ', readlink('d/link'), ' ', file_exists('/etc/shadow') ? 'seen' : 'unseen', ' ', getcwd(), ' ', getenv('HOME'), "\n";
$out = fopen('t.csv', 'w');
fputcsv($out, ['a b', 'c"d', '1']);
fclose($out);
echo json_encode(fgetcsv(fopen('t.csv', 'r'))), ' ', is_writable('/usr') ? 'writable' : 'read-only', "\n";

exec('echo $((6 * 7)); exit 3', $lines, $code);
echo $lines[0], ' ', $code, ' ', trim(shell_exec('echo shell')), ' ', escapeshellarg("a'b"), "\n";
$p = proc_open(['tr', 'a-z', 'A-Z'], [['pipe', 'r'], ['pipe', 'w'], ['pipe', 'w']], $pipes);
fwrite($pipes[0], 'through');
fclose($pipes[0]);
echo stream_get_contents($pipes[1]), ' ', proc_close($p), "\n";
$pid = pcntl_fork();
if ($pid === 0) {
    exit(4);
}
pcntl_waitpid($pid, $status);
echo 'fork ', pcntl_wexitstatus($status), ' ', posix_getpwuid(posix_getuid())['name'], "\n";
pcntl_async_signals(true);
pcntl_signal(SIGUSR1, function (): void {
    echo "signal\n";
});
posix_kill(posix_getpid(), SIGUSR1);
[$here, $there] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
fwrite($here, "pair\n");
echo fgets($there);
echo @stream_socket_client('tcp://127.0.0.1:80', $errno, $error, 1) ? 'connected' : 'no network', "\n";
$list = range(1, 200000);
shuffle($list);
sort($list);
echo $list[0], ' ', $list[199999], ' ', memory_get_peak_usage() > 1 << 20 ? 'measured' : '', ' ', ini_get('memory_limit'), "\n";
echo json_encode(array_slice($argv, 1)), ' ', getenv('GIVEN'), ' ', json_encode(stream_get_contents(STDIN)), ' ', $argv[0], "\n";
register_shutdown_function(function (): void {
    echo "end\n";
});
fwrite(STDERR, "to stderr\n");
echo $undefined ?? 'unset', "\n";
exit(7);
