# Blocks, pattern matching, text, JSON, files, processes, threads, fibers.
require 'digest'
require 'erb'
require 'etc'
require 'fileutils'
require 'json'
require 'open3'
require 'pathname'
require 'set'
require 'socket'
require 'stringio'
require 'tempfile'
require 'time'
require 'timeout'
require 'tmpdir'
require 'yaml'
require 'zlib'

$stdout.sync = true
puts %w[a glove in a box in a cell].tally.sort_by { |w, n| [-n, w] }.map { |w, n| "#{w}=#{n}" }.join(',')
Point = Struct.new(:x, :y) do
  include Comparable
  def <=>(other) = x <=> other.x
end
puts [Point.new(3, 1), Point.new(1, 2)].min.inspect
case { name: 'cell', size: [1, 2, 3] }
in { name: String => name, size: [first, *rest] }
  puts "#{name} #{first} #{rest}"
end
puts (1..Float::INFINITY).lazy.select(&:even?).map { _1**2 }.first(4).inspect
puts "key=value".gsub(/(\w+)=(\w+)/, '\2=\1'), 'ß → 漢字'.upcase, 'naïve'.unicode_normalize(:nfd).length, '2024-02-29'[/(?<y>\d+)-(?<m>\d+)/, 'm']
puts JSON.generate({ list: [1, 'two', nil], 'k' => 1.5 }), JSON.parse('{"a":[{"b":1}]}').dig('a', 0, 'b'), { 'x' => [1, 2] }.to_yaml.inspect
puts Digest::SHA256.hexdigest('abc')[0, 8], Zlib::Inflate.inflate(Zlib::Deflate.deflate('glove ' * 100)).length, ERB.new('<%= 6 * 7 %>').result, 2**100
puts Time.at(86400).strftime('%F %Z'), Time.parse('2024-02-28T12:00:00Z').iso8601, format('%05.2f %x', Math::PI, 255)
begin
  Integer('x')
rescue ArgumentError => e
  puts e.message
ensure
  puts 'ensured'
end
catch(:done) { 10.times { |i| throw :done if i == 3 } }
fib = Fiber.new { a, b = 0, 1; loop { Fiber.yield a; a, b = b, a + b } }
puts Array.new(8) { fib.resume }.join(' '), [3, 1, 2].each_with_index.sort.inspect
puts ObjectSpace.respond_to?(:garbage_collect), GC.start.inspect

Tempfile.create('x') do |f|
  f.puts 'one', 'two → é'
  f.rewind
  puts File.dirname(f.path), f.readlines(chomp: true).inspect, format('%o', f.stat.mode & 0o777)
end
Dir.mktmpdir do |d|
  file = Pathname(d) / 'naïve'
  file.write('x' * 10)
  File.rename(file, "#{d}/moved")
  File.symlink('moved', "#{d}/link")
  File.open("#{d}/moved") { |f| puts f.flock(File::LOCK_EX | File::LOCK_NB) }
  puts Dir.children(d).sort.inspect, File.readlink("#{d}/link"), FileUtils.cp("#{d}/link", 'copy').inspect
end
puts File.exist?('/etc/shadow'), Dir.pwd, Dir.home, Etc.getlogin.inspect, Etc.getpwuid.name, File.umask.to_s(8)

puts `echo $((6 * 7))`, system('exit 3').inspect, $?.exitstatus
out, err, status = Open3.capture3('tr', 'a-z', 'A-Z', stdin_data: 'through')
puts out, err.empty?, status.success?
r, w = IO.pipe
pid = fork { r.close; w.puts 'from the child'; exit! 4 }
w.close
puts r.read, Process.wait2(pid)[1].exitstatus
pid = spawn('cat', in: IO.popen('echo spawned'), out: 'spawned.txt')
Process.wait(pid)
puts File.read('spawned.txt')
pid = spawn('sleep', '60')
Process.kill('TERM', pid)
puts Process.wait2(pid)[1].termsig
a, b = UNIXSocket.pair
a.write('pair')
puts b.readpartial(10)
begin
  UNIXServer.new('/tmp/s')
rescue SystemCallError => e
  puts e.class
end
begin
  TCPSocket.new('127.0.0.1', 80)
rescue SystemCallError => e
  puts e.class
end

q = Queue.new
results = Mutex.new.then do |lock|
  sum = 0
  workers = Array.new(8) { Thread.new { while (n = q.pop) != :stop do lock.synchronize { sum += n } end } }
  100.times { |i| q << i }
  8.times { q << :stop }
  workers.each(&:join)
  sum
end
puts results, Thread.new { Thread.current[:x] = 1; raise 'from a thread' rescue $!.message }.value
begin
  Timeout.timeout(0.05) { sleep 60 }
rescue Timeout::Error
  puts 'timeout'
end
warn_free = Ractor.respond_to?(:new)
puts warn_free
trap('USR1') { puts 'signal' }
Process.kill('USR1', Process.pid)
sleep 0.05
puts ARGV.inspect, ENV['GIVEN'], $stdin.read.lines(chomp: true).inspect, __FILE__, $PROGRAM_NAME
at_exit { puts 'end' }
exit 7
