"""A step that sees three turns of ten reads less than 30 % of the conversation, and still finds what it is asked."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from seedbed.stage.dialogue.context import Statement, condense, summarise, total


@dataclass(frozen=True)
class Question:
    """What a step is asked, the turns it sees, and the words that must be among what it is shown."""

    prompt: str
    sees: tuple[str, ...]
    facts: tuple[str, ...]


@dataclass(frozen=True)
class Conversation:
    title: str
    turns: dict[str, str]
    questions: tuple[Question, ...]

    def said(self, *names: str) -> list[Statement]:
        return [Statement(name, text) for name, text in self.turns.items() if not names or name in names]


OFFICE = Conversation(
    "an office moves",
    {
        "brief": """Thanks everybody for making time this morning. As you all know we have been bursting at the \
seams since the spring, and it is no secret that the meeting rooms are booked out by nine. The management board \
has now decided that we leave the house in Gartenstrasse for good. We are 84 people today and the board wants \
space for 110, so that we do not have this conversation again in two years. The old lease ends on 30 September, \
and it cannot be extended, since the owner wants to turn the building into flats. I would like each of you to look \
at your own field and come back with what it means. Nobody has to be brilliant today. It helps if you say what you \
do not know.""",
        "search": """I visited eleven buildings with the agent over the last two weeks, and I have to say that it \
was sobering. Most of them look wonderful in the brochure and smell of carpet glue in reality. Three are worth \
talking about. The tower at the station is splendid but far above what we can pay. The old printing works in \
Hafenstrasse has character, high ceilings, and 1,940 square metres on two floors. The landlord there is Meridian \
Estates, and they ask for 21.50 euros per square metre. The third one, in the business park, is cheap, but it \
takes forty minutes by bus and I could see in your faces that this is not going to happen. My favourite is the \
printing works, in spite of the noise from the tram.""",
        "finance": """I went through the numbers twice, since nobody will thank me if they are wrong. As far as I \
can see we are able to carry the printing works, but not with our eyes closed. The whole move may cost 265,000 \
euros, including furniture, and that is a ceiling, not a target. Rent is paid from another pot and does not count \
towards it. The bank in turn wants a deposit of three months, which is 125,130 euros. I would very much like to \
avoid paying it in cash, so I asked for a guarantee. In general I am relaxed about the years after that. What I do \
worry about is that small things add up: every department has its wishes, and each of them sounds reasonable when \
you look at it alone.""",
        "landlord": """The call with Meridian took longer than planned, but the mood was friendly. They showed a \
lot of understanding for our situation, perhaps because the building has been empty for a while. After some back \
and forth they came down to 19.80 euros per square metre, provided that we stay for seven years. They will also \
repaint both floors at their own expense. What they will not do is pay for the air conditioning; Ms Okafor was \
quite clear about that, and I do not think that it makes sense to ask again. She needs our answer by 14 March. \
After that they will offer the space to a school of music. I have a good feeling about these people, they answer \
the phone and they say what they think.""",
        "movers": """I asked four companies for an offer, and two of them came to look at the house in person, \
which tells you something about the other two. Everybody agrees that the archive is the hard part, since the \
shelves are bolted to the wall and the stairs are narrow. Kowalski & Sons want 38,400 euros for everything, \
packing included. Their competitor is a little cheaper, but takes four days, and they subcontract half of the \
work. Kowalski does it in one weekend with two crews. They have time on 6 and 7 September, and would hold these \
days for us until the end of the month. I liked that their foreman asked about the fish tank before I had \
mentioned it.""",
        "it": """From the side of IT this is less dramatic than it sounds, though I would not call it a holiday \
either. We have learnt a lot from the last move, mostly what not to do. The servers themselves go to the data \
centre in any case, so that no machine room is needed in the new place. What takes time is the line. The provider \
needs eleven weeks for the fibre, counted from the day we sign, and no money in the world makes this faster. Until \
then we could bridge with radio. I would order two lines from different companies. And please no carpets with \
static electricity this time, we lost a whole row of switches back then and it took us days to find out why.""",
        "people": """I talked with about thirty colleagues over coffee. On the whole they are curious rather than \
afraid, and many asked about the kitchen first. Two things came up again and again. The first is the way to work: \
for most it becomes shorter, but for those who come from the south it is a good deal longer. The second is \
parking. The printing works has 22 parking spaces, whereas we have 60 today. The works council insists that six of \
them are reserved for people with disabilities. Apart from that there is a lively debate about quiet rooms, plants \
and whether the table football comes along. I think that we should let the teams decide most of these things on \
their own.""",
        "legal": """I read the draft of the contract over the weekend. It is a decent one, written by somebody who \
has done this before, and there is little to complain about. Three clauses deserve a second look. The clause about \
restoring the rooms at the end is wider than usual, but they are willing to talk. There is a break clause after \
five years, with nine months' notice, and we should insist on keeping it. Subletting is not allowed without \
written consent. For our side, the contract has to be signed by Dr. Lindqvist, since anything above a million in \
total is beyond what the rest of us may sign. I would not lose much sleep over the remainder, it is the usual \
small print that lawyers copy from each other.""",
        "objections": """Allow me to play the spoilsport for a moment. I have nothing against the printing works, \
it is a lovely building. But we talk as if everything would go well, and it never does. The city has announced \
that it will dig up Hafenstrasse in the summer, and nobody can tell us for how long. If the lorries cannot reach \
the gate, then we carry every chair for two hundred metres. I also think that we should not move the laboratory at \
all: the works council and I refuse to have the chemicals stored under the same roof as the kitchen. There is a \
unit in Bergweg, only ten minutes away, that costs 2,300 euros a month. It is not pretty, but it is safe, and that \
is what counts in the end.""",
        "summary": """That was a good round, thank you. I take with me that we all want the printing works, and \
that most of the questions are a matter of time and not of principle. Let me say how we go on. The laboratory will \
not come along; we rent the unit for it. Farida runs the project from today and has my full support. She reports \
to the board every second Tuesday. If something gets stuck, then please come to me early, and not with a solution \
that needs to be signed within the hour. We will look at the plan of the rooms in the next round, with everybody \
who wants to join. And yes, the table football comes along.""",
    },
    (
        Question(
            "Draft our reply to the landlord: which rent per square metre do we accept, for how many years, by which "
            "date do they need the answer, and who signs the contract for us?",
            ("search", "landlord", "legal"),
            ("19.80 euros", "seven years", "14 March", "Dr. Lindqvist"),
        ),
        Question(
            "Plan the weekend of the move with the moving company. What do they charge, which days do they hold for "
            "us, and what is the most that the move may cost altogether?",
            ("finance", "movers", "it"),
            ("38,400 euros", "6 and 7 September", "265,000 euros"),
        ),
        Question(
            "Write to the staff about parking and the laboratory: how many parking spaces are there, how many are "
            "reserved, and why does the laboratory not move with us?",
            ("people", "objections", "summary"),
            ("22 parking spaces", "six of them are reserved", "refuse to have the chemicals stored"),
        ),
        Question(
            "What is the timeline? When does the old lease end, how long does the provider need for the fibre line, "
            "and who runs the project?",
            ("brief", "it", "summary"),
            ("30 September", "eleven weeks", "Farida runs the project"),
        ),
    ),
)

OUTAGE = Conversation(
    "a shop was down",
    {
        "timeline": """Let me start with what we know for certain. It was a quiet Friday, traffic was normal and \
two of us had already gone home. At 16:42 the first alert came in: checkout was answering slowly. We first \
believed in a glitch of the monitoring, as we had one the week before. Nine minutes later the shop was down for \
everybody. The team opened a call at once, and it filled up quickly, perhaps too quickly. Service was restored at \
19:05. In between we tried a lot of things, some of which made it worse. The status page was updated late, and \
people let us know.""",
        "database": """I looked into the database logs in detail. There is a lot of noise in them, and it is easy \
to fall for the wrong thing. The disks were fine, and so was the replication. The real cause was a migration that \
added an index to the table `orders`, without the option that lets others write in the meantime. The table was \
locked, and every connection queued up behind it. The pool is limited to 200 connections, and all of them were \
gone within a minute. It is the kind of mistake that everyone makes once. What bothers me more is that our tests \
use a table with a few hundred rows, where the same statement takes no time at all.""",
        "deploy": """The change was merged on Thursday afternoon and went out with the regular train. Nobody did \
anything forbidden, I want to stress that. It was reviewed by Tomasz, who asked about the index, and was told that \
it would be quick. The pipeline has no step that looks at migrations. We could have rolled back, but the rollback \
script had not been tried since last autumn and failed on a missing permission. That alone cost us 48 minutes. I \
have since repaired it and ran it three times, so that this at least will not bite us again.""",
        "customers": """On the side of support it was a long evening. We received 1,317 tickets, most of them \
polite and some of them not. The phone lines were busy until ten. About a third were people who had been charged, \
but never got a confirmation. The finance department confirmed that 212 customers paid twice. All of them have to \
get their money back by Wednesday, we promised that in writing. The largest reseller, Norrland Trading, is angry \
and wants to talk with somebody from the management. On the bright side, a number of people wrote to say that they \
appreciated the honest answer.""",
        "money": """I tried to put a figure on it, with all the caution that such figures deserve. On a usual \
Friday evening we take in a little over four thousand an hour, but this was the last one before the holidays. My \
estimate of the lost sales is 31,500 dollars. Some of these people came back on Saturday, so the true number is \
lower, but I cannot say by how much. In addition there are the penalties: the contract with Norrland grants them a \
credit of 10 % of the monthly fee. The insurance does not pay, as the damage is below the excess. I have asked the \
broker anyway.""",
        "security": """I was asked to check whether this could have been an attack. I went through the access logs \
of the whole week and talked with the people at the network provider. There is no sign of one. No data left the \
house, and no account was used from an unusual place. What I did find is a leftover: during the call somebody \
shared the password of the administrator in the chat, with forty people in the room. It has been changed since. We \
therefore do not have to inform the authorities, and the data protection officer, Ms Haddad, agrees. Please use \
the vault next time, that is what it is there for.""",
        "culture": """May I say something about the way we worked together? I found it remarkable how calm \
everybody stayed. Still, there were moments when six people typed on the same machine. Nobody knew who was in \
charge. In my old company we had an incident lead, one person who does not touch the keyboard and only decides. It \
sounds bureaucratic, but is a relief when things burn. I propose that we try it for a quarter. Also, we should not \
write the review as a hunt for the guilty. People who are afraid hide things, and hidden things come back at \
night.""",
        "fixes": """Here is what I suggest that we do, in the order of usefulness:

- Every migration is checked by a linter that refuses locks on large tables. Ines builds it by 12 May.
- The tests get a copy of the real tables, with the names blurred. This is a matter of two weeks.
- A statement that runs longer than 5 seconds during a deployment is cancelled.
- The rollback is rehearsed on the first Monday of each month.
- No deployments on Fridays after noon. I know that this one is not popular.

None of that is rocket science. We have talked about most of it before, and then other things were more urgent.""",
        "dissent": """I agree with nearly everything, but not with the ban on Fridays. A team that is afraid of \
Fridays has a problem with its pipeline and not with the calendar. If the linter and the timeout are there, the \
ban is superfluous. Half of our fixes for customers go out on a Friday, and they would wait for three days. I \
would rather not have it. My team will not follow a rule that we cannot explain to ourselves. What I could live \
with is a second pair of eyes for everything that touches the database, and I would put that in writing.""",
        "close": """Thank you, this is a review as I like it. We take all of the list except for the ban on \
Fridays; instead, changes to the database need two approvals. The role of the incident lead is taken by Marguerite \
until the end of July, and we look at it again then. I am going to call Norrland myself tomorrow. The public \
report is written by Ines and goes out on 28 April. Please keep it free of names. If you want to read it before, \
then say so today. And take it easy this weekend, all of you have earned it.""",
    },
    (
        Question(
            "Write the technical part of the report: when did it begin, when was service restored, what was the cause "
            "and why did the rollback take so long?",
            ("timeline", "database", "deploy"),
            ("16:42", "19:05", "added an index to the table `orders`", "48 minutes"),
        ),
        Question(
            "Write to our reseller Norrland and to the customers who were charged twice: how many are they, by when do "
            "they get their money back, and which credit does the reseller get?",
            ("customers", "money", "close"),
            ("212 customers paid twice", "by Wednesday", "credit of 10 %"),
        ),
        Question(
            "List the measures with the person and the date. Who builds the linter for migrations and by when, after "
            "how many seconds is a statement cancelled, and is there a ban on Friday deployments?",
            ("fixes", "dissent", "close"),
            ("Ines builds it by 12 May", "longer than 5 seconds", "except for the ban on Fridays"),
        ),
        Question(
            "Was it an attack, do we have to inform the authorities, how high are the lost sales, and does the "
            "insurance pay?",
            ("money", "security", "culture"),
            ("There is no sign of one", "do not have to inform the authorities", "31,500 dollars", "does not pay"),
        ),
    ),
)

FESTIVAL = Conversation(
    "ein Verein feiert",
    {
        "anlass": """Liebe Leute, schön, dass ihr trotz des Regens gekommen seid. Unser Verein wird in diesem \
Sommer hundert Jahre alt, und das wollen wir nicht mit einem Kasten Bier hinter der Turnhalle begehen. Der \
Vorstand hat sich auf ein Fest für das ganze Dorf geeinigt. Gefeiert wird am 19. Juli, das ist ein Samstag. Wir \
rechnen mit etwa 600 Gästen, bei gutem Wetter eher mehr. Ich bitte jeden, sich ein Feld auszusuchen, das ihm \
Freude macht. Wer gar nichts findet, darf Tische schleppen. Wir haben schon ganz andere Sachen gestemmt, denkt nur \
an das Hochwasser.""",
        "platz": """Ich habe mir drei Plätze angesehen und mit den Leuten gesprochen, denen sie gehören. Der \
Marktplatz wäre natürlich schön, aber dort gibt es keinen Schatten und kaum Strom. Der Sportplatz ist groß genug, \
nur leidet der Rasen, und der Platzwart hat mich angesehen, als hätte ich ihm den Hund gestohlen. Am besten \
gefällt mir die Wiese am Mühlbach. Sie gehört der Familie Brandner, und sie überlässt sie uns für 350 Euro. Dafür \
müssen wir bis Montag um zehn Uhr alles abgebaut haben. Parken kann man beim Sägewerk, das hat mir der Besitzer in \
die Hand versprochen.""",
        "behoerden": """Das Gespräch im Rathaus war angenehmer als gedacht. Frau Petrovic kennt solche Feste und \
hat mir eine Liste mitgegeben, die ich euch gern kopiere. Die Genehmigung kostet 180 Euro und muss bis zum 2. Mai \
beantragt sein. Musik im Freien ist nur bis 23 Uhr erlaubt, danach darf es nur noch leise sein. Ein Feuerwerk \
genehmigt die Gemeinde nicht, wegen der Störche und der trockenen Felder. Da war sie freundlich, aber bestimmt. \
Außerdem brauchen wir einen Plan für Rettungswege. Den zeichnet mir mein Schwager, der macht so etwas beruflich.""",
        "musik": """Über Musik kann man bekanntlich ewig streiten, deshalb habe ich einfach herumgefragt. Die \
Jungen wollen einen DJ, die Alten die Blaskapelle, und alle dazwischen wollen tanzen. Die Blaskapelle spielt \
umsonst, wenn sie etwas zu essen bekommt. Für den Abend habe ich die Gruppe Nordwind angefragt. Sie verlangen \
1.250 Euro und bringen ihre Anlage selbst mit. Die andere Gruppe, die ich im Sinn hatte, hat leider abgesagt, weil \
der Schlagzeuger heiratet. Ich finde, dass wir mit dieser Mischung alle glücklich machen, oder wenigstens \
niemanden unglücklich.""",
        "essen": """Beim Essen habe ich mich an das gehalten, was beim letzten Mal gut lief. Bratwurst, \
Kartoffelsalat, Kuchen vom Landfrauenverein. Neu ist, dass wir auch etwas ohne Fleisch anbieten, und zwar nicht \
nur Brot. Der Metzger Huber liefert 800 Würste und nimmt zurück, was übrig bleibt. Das Getränkelager übernimmt die \
Brauerei, samt Kühlwagen. Glasflaschen sind auf der Wiese verboten, wir nehmen also Becher mit Pfand. Das Pfand \
beträgt zwei Euro. Wer Kuchen backen will, trägt sich bitte in die Liste ein, die in der Bäckerei hängt.""",
        "kasse": """Ich mache es kurz, ihr kennt mich. In der Kasse liegen 9.870 Euro, und davon muss noch das \
Dach der Hütte bezahlt werden. Für das Fest kann ich höchstens 4.500 Euro freigeben. Mehr ist nicht drin, auch \
nicht, wenn ihr mich lieb anschaut. Die Sparkasse spendet uns 1.000 Euro, wenn ihr Banner an der Bühne hängt. Ich \
halte das für vertretbar. Eintritt möchte ich keinen nehmen, das passt nicht zu uns. Dafür stellen wir ein \
Sparschwein auf, und erfahrungsgemäß wird das am späten Abend am schwersten.""",
        "sicherheit": """Ich war lange genug bei der Feuerwehr, um zu wissen, dass meistens nichts passiert. Aber \
eben nur meistens. Wir brauchen Sanitäter, das schreibt die Gemeinde ab 500 Gästen vor. Das Rote Kreuz kommt mit \
vier Leuten. Ordner stellen wir selbst, da haben sich schon einige gemeldet. Am Mühlbach muss ein Zaun gezogen \
werden, wegen der Kinder; das Wasser ist dort tiefer, als es aussieht. Für den Notfall ist Jonas Ehrlich \
zuständig, seine Nummer hängt an jedem Stand. Offenes Feuer dulde ich auf der Wiese nicht, auch keine Fackeln.""",
        "werbung": """Ein Fest, von dem keiner weiß, ist eine Besprechung im Freien. Ich kümmere mich um Plakate \
und um die Zeitung. Der Entwurf ist fast fertig, nur über die Farbe wird noch gestritten. Gedruckt werden 400 \
Plakate, und zwar bei der Druckerei im Nachbarort, weil sie uns einen guten Preis macht. Der Artikel erscheint am \
5. Juli. Im Netz sind wir auch vertreten, das macht meine Tochter, die kann das besser als ich. Bitte hängt die \
Plakate nicht an Bäume, dafür gab es letztes Mal Ärger und eine saftige Rechnung.""",
        "zweifel": """Ich will niemandem die Laune verderben. Aber was machen wir, wenn es regnet? Im letzten Jahr \
stand die Wiese zwei Tage unter Wasser. Ein Zelt in dieser Größe kostet 2.100 Euro, und das sprengt die Kasse. Ich \
schlage vor, dass wir bei schlechtem Wetter in die Halle der Firma Reuter ausweichen. Herr Reuter hat schon Ja \
gesagt, will es aber bis drei Tage vorher wissen. Ein Verschieben lehne ich ab, denn Ende Juli ist das halbe Dorf \
im Urlaub. Es ist nicht so romantisch wie am Bach, doch trocken sind wir dort allemal.""",
        "beschluss": """Gut, dann halten wir fest, was wir heute beschlossen haben. Wir nehmen die Wiese und bei \
Regen die Halle, ein Zelt mieten wir nicht. Ob wir ausweichen, entscheidet Sabine am Mittwoch davor. Die Gruppe \
Nordwind wird gebucht. Einen Eintritt gibt es nicht. Das nächste Treffen ist am 8. April, wieder hier, wieder um \
halb acht. Bringt bitte eure Listen mit, und wer nicht kommen kann, schickt jemanden. Ich danke euch, und jetzt \
gibt es Suppe.""",
    },
    (
        Question(
            "Schreibe den Antrag an die Gemeinde: Wann findet das Fest statt, bis wann muss die Genehmigung beantragt "
            "werden, wie lange ist Musik erlaubt, und was ist mit einem Feuerwerk?",
            ("anlass", "behoerden", "sicherheit"),
            ("19. Juli", "2. Mai", "bis 23 Uhr", "Feuerwerk genehmigt die Gemeinde nicht"),
        ),
        Question(
            "Stelle die Kosten zusammen: Was kosten die Wiese und die Gruppe für den Abend, und wie viel gibt die "
            "Kasse höchstens frei?",
            ("platz", "musik", "kasse"),
            ("350 Euro", "1.250 Euro", "höchstens 4.500 Euro"),
        ),
        Question(
            "Was geschieht bei Regen? Wohin weichen wir aus, was würde ein Zelt kosten, und wer entscheidet wann?",
            ("platz", "zweifel", "beschluss"),
            ("Halle der Firma Reuter", "2.100 Euro", "entscheidet Sabine am Mittwoch"),
        ),
    ),
)

STUDY = Conversation(
    "a study is planned",
    {
        "question": """## Why we do this

Sleep is one of these subjects on which everybody has an opinion and few have data. Our clinic sees about forty \
shift workers a month, and most of them are sent home with good advice. We would like to know whether light in the \
morning helps. There are small trials, but they last for two weeks at best.

## What we want to learn

The main question is whether thirty minutes of bright light shorten the time to fall asleep. The primary outcome \
is sleep latency after 12 weeks, measured at home. Everything else is secondary, however tempting.""",
        "literature": """I read what there is, and it took me a good part of January. The field is full of \
enthusiasm. Of 63 papers only nine had a control group, and of these four were paid for by makers of lamps. The \
best one is the trial by Hashimoto from 2019, which found a difference of 11 minutes. It had 58 participants. \
Others found nothing, but they were too small to find anything. I would not say that the matter is open, it has \
simply never been asked in a serious way. The reviews mostly quote each other, which is comfortable for them and \
of no use to us.""",
        "design": """I suggest a plain design, because complicated ones break. Two groups, drawn by lot, one with \
a bright lamp and one with a dim lamp of the same shape. Nobody who measures knows who has which.

| | bright | dim |
|---|---|---|
| light | 10,000 lux | 150 lux |
| duration | 30 minutes | 30 minutes |
| participants | 94 | 94 |

The lot is drawn by the statistics centre and not by us. A crossover would save people, but the effect of light \
does not vanish on command, so I decided against it. We tried that once, and never again.""",
        "numbers": """The size follows from what we consider worth finding. A difference of eight minutes is what \
a patient notices, according to the interviews. With a power of 90 % and the usual level, we need 188 people in \
total, assuming that 15 % drop out. I have checked that with a simulation, since the formula takes things for \
granted which do not hold here. There will be one look at the data half way, for safety only. We do not stop early \
for success. I know that this is hard when the curve looks nice, but that is precisely when one fools oneself.""",
        "ethics": """The committee met last Thursday and was well prepared, which I cannot say of all committees. \
They liked the simple design. Their vote is positive under two conditions. People with a history of bipolar \
disorder must not take part, as bright light can trigger a manic phase. And the consent form has to be rewritten \
in plain language, at most three pages. They rejected the payment of 400 euros as too high; 150 euros are fine. We \
have to answer by 9 June. The chair, Professor Adeyemi, offered to have a look at the new form before we hand it \
in.""",
        "devices": """For the lamps I talked with three makers and told each of them that the result may not \
please them. One hung up. We get the lamps from Solvang, at 72 euros each, and they have no say in the paper. The \
sleep itself is measured by a wristband. The old model loses its data when the battery runs flat, so we need the \
new one. It costs more, but it is worth every cent when you think of the hours spent on missing nights. Each \
participant also keeps a diary on paper. I know, but people do fill it in, and they like it better than one more \
app.""",
        "recruiting": """Finding people will be the hardest part, it always is. Shift workers sleep when we work. \
I spoke with the bus company, two hospitals and the bakery chain. The hospital of St. Anna will not take part, \
because they run a study of their own. The bus company in turn was enthusiastic and has 340 drivers on rotating \
shifts. If one in five joins, then we are a long way. The first person could be enrolled on 1 September. Leaflets \
are cheap, but it is the foremen who convince people. So I would start there, with coffee and something sweet.""",
        "budget": """The foundation has granted us 218,000 euros over two years. That sounds like a lot, and it is \
not. More than half goes to the two people we need for the visits. The devices are next, then the statistics \
centre with a flat fee of 26,500 euros. I kept a reserve of 5 % for whatever we have not thought of. Travel is not \
paid, neither to congresses nor for the participants, apart from bus tickets. If we run out of money, then we stop \
enrolling and do not cut the follow-up, for half-measured people are of no use to anyone.""",
        "critic": """As the one who is paid to be unpleasant, let me say where this may fail. The dim lamp is a \
weak control: people will look up on the net what a real lamp looks like. I would ask them at the end which lamp \
they believe they had. Second, the winter. Whoever starts in September ends in December, when there is less \
daylight for all. The lot has to be balanced by month. Third, the wristband is not validated for people who sleep \
by day. I do not accept it as the only measure; at least 30 participants need a night in the laboratory. Otherwise \
I find little to complain about, which is rare.""",
        "decisions": """Many thanks to all, also to our critic. We do it as designed, with the lot balanced by \
month, and with the question about the lamp at the end. The laboratory nights are added, and paid from the \
reserve. Dr. Ruiz-Marín is the principal investigator, and Hannah looks after the data. The protocol is registered \
before the first person is enrolled and not a day later. We meet every second Wednesday, in the small room with \
the bad coffee. Please send me your parts of the protocol as they are; I would rather have them rough and early.""",
    },
    (
        Question(
            "Write the section on sample size and design: how many people in total, which power, which drop-out rate "
            "is assumed, how bright are the two lamps, and what is the primary outcome?",
            ("question", "design", "numbers"),
            ("188 people", "power of 90 %", "15 % drop out", "10,000 lux", "sleep latency after 12 weeks"),
        ),
        Question(
            "Answer the ethics committee: who must not take part, which payment is allowed, and by when do we have to "
            "answer? Say also who is the principal investigator.",
            ("ethics", "recruiting", "decisions"),
            ("bipolar disorder must not", "150 euros are fine", "by 9 June", "Ruiz-Marín"),
        ),
        Question(
            "Prepare the order and the budget: what does a lamp cost and who supplies it, how much has the foundation "
            "granted, and what is the flat fee of the statistics centre?",
            ("devices", "budget", "critic"),
            ("from Solvang, at 72 euros each", "218,000 euros", "26,500 euros"),
        ),
        Question(
            "What did the critic refuse to accept, which hospital will not take part and why, and from when can people "
            "be enrolled?",
            ("recruiting", "critic", "decisions"),
            ("not accept it as the only measure", "St. Anna will not take part", "1 September"),
        ),
    ),
)

# Written after the weights in context.py had been set on the others; one of them, for neighbours, was changed since.
HARBOUR = Conversation(
    "a ferry gets a new engine",
    {
        "skipper": """The Amalia is a good old ship, and she has carried the islanders for longer than I have been \
alive. But the engine is finished. Last winter she broke down four times, twice with passengers on board. We burn \
61 litres an hour, and on cold mornings the smoke is so thick that the hotel complains. I do not want another \
diesel if there is a way around it. My crew would learn whatever is needed. All I ask is that she sails again \
before Easter, because that is when the visitors come.""",
        "yard": """We had her on the slip for two days and looked at everything. The hull is sound, much better \
than I feared; the plates have lost less than a millimetre. The shaft can stay as well. An electric drive fits \
into the engine room if the old tanks are cut out. The conversion takes 14 weeks at our yard, and we have a free \
place from 8 November. We would charge 412,000 euros for the work without the batteries. One thing that I have to \
mention is the wheelhouse: there is asbestos in the ceiling, and that must come out first.""",
        "batteries": """There are two sorts worth considering. The one with nickel is lighter, the one with iron \
phosphate is safer and lasts longer. For a ship with people on board I would not think twice. You need about 900 \
kilowatt hours to cross four times a day with a margin for wind. The maker guarantees 6,000 cycles, which means \
eleven years in your case. Delivery is the sore point: they promise 20 weeks, and they have been late before. The \
price today is 287 euros per kilowatt hour, but it is only valid until the end of the month.""",
        "grid": """I am from the power company and I am afraid that I have the bad news. The cable to the island \
was laid in the seventies. It cannot deliver more than 400 kilowatts, and in summer the hotels take most of that. \
Charging overnight is no problem. A fast charger at noon is out of the question, unless you put a buffer battery \
on the pier. We are going to replace the cable in 2029, but not earlier, whatever the mayor tells you. For the \
connection itself we ask 38,700 euros, transformer included.""",
        "mayor": """Let me speak for the island. We have 340 inhabitants, one doctor and no bridge. Without the \
ferry there is no school, no post and no bread. So for the weeks in the yard we need a replacement, and it must be \
able to carry the ambulance. The neighbouring harbour would lend us the Tordis for 1,900 euros a day. I do not \
like that sum, but I like the alternative even less. The council voted on Tuesday: nine in favour, two against. I \
was asked to tell you that the fares are not going to rise.""",
        "money": """The state pays for clean ships, but it does so slowly. We may apply for 45 percent of the \
costs, at most half a million. The application closes on 30 June, and whoever has ordered before the approval gets \
nothing. I cannot stress this enough: no signature before the letter arrives. The savings bank lends us the rest \
at 3.4 percent over twelve years. Compared with the fuel that we burn now, we would be even after nine years. If \
the price of diesel goes up, it is sooner, and if it goes down, nobody will blame us.""",
        "safety": """As the surveyor I look at what happens when things go wrong. Batteries on a ferry are \
allowed, but the room has to withstand a fire for an hour. You need a gas detector, a second way out and a crew \
that has practised. I will not approve lithium cells under the passenger deck. Place them in the former cargo hold \
and you have my blessing. The trial run takes two days and I want to be on board myself. My colleague Ms Thorsdal \
handles the papers, and she is thorough, so start early.""",
        "doubts": """I ran this line for twenty years and I have seen many clever ideas. In January the ice comes, \
and ice eats power. Has anybody worked out what happens at fifteen below zero? In my experience you lose a third \
of the charge. I am not against it. But I want a small diesel generator as a reserve, painted green if you like. \
It weighs 1.8 tonnes and it has brought more people home than all the brochures in the world. And please, do not \
sell the old propeller, we are going to need it.""",
        "school": """A word from the teachers, since nobody has asked about the children. Thirty-one of them cross \
every morning, and the youngest is six. They love the Amalia. What they do not love is waiting in the rain when \
she is late. Could the shelter at the pier be part of the plan? The parents would build it themselves if the \
timber is paid for, which is about 4,000 euros. We could also use the ship for a project: the older ones would \
like to measure how much cleaner the air becomes.""",
        "outcome": """So this is what we do. We apply for the grant first, and order nothing until it is approved. \
The yard keeps the place for us, and Oddvar confirms it in writing by Friday. We take the iron phosphate cells and \
put them into the cargo hold. The generator comes on board as a reserve. There will be no fast charger. The \
shelter is built, and the municipality pays for the timber. Signe leads the project; she knows the ship and the \
ministry. We meet again when the letter is here.""",
    },
    (
        Question(
            "Write the request to the yard: how long does the conversion take, from when is there a place, what "
            "does the work cost, and what has to be removed first?",
            ("yard", "safety", "outcome"),
            ("14 weeks", "8 November", "412,000 euros", "asbestos"),
        ),
        Question(
            "Write the application for the grant: which share of the costs can we get, when does the application "
            "close, and may we order before the approval? On which terms does the bank lend?",
            ("mayor", "money", "outcome"),
            (
                "45 percent",
                "30 June",
                "whoever has ordered before the approval gets nothing",
                "3.4 percent over twelve years",
            ),
        ),
        Question(
            "Plan the charging and the batteries: how much power can the cable deliver, what does the connection "
            "cost, how many kilowatt hours do we need, and how long is the delivery time?",
            ("batteries", "grid", "doubts"),
            ("400 kilowatts", "38,700 euros", "900 kilowatt hours", "20 weeks"),
        ),
        Question(
            "Explain to the islanders what sails while the ship is in the yard and what it costs a day, where the "
            "batteries will be placed and why, and who leads the project.",
            ("mayor", "safety", "outcome"),
            (
                "Tordis for 1,900 euros a day",
                "not approve lithium cells under the passenger deck",
                "former cargo hold",
                "Signe leads the project",
            ),
        ),
    ),
)

CONVERSATIONS = (OFFICE, OUTAGE, FESTIVAL, STUDY, HARBOUR)
ASKED = [
    pytest.param(conversation, question, id=f"{conversation.title}: {' '.join(question.sees)}")
    for conversation in CONVERSATIONS
    for question in conversation.questions
]


def shown(said: list[Statement]) -> str:
    """What is seen, however its lines are broken."""
    return " ".join(" ".join(map(str, said)).split())


def test_the_facts_that_are_asked_for_are_in_the_turns_that_are_seen() -> None:
    for conversation in CONVERSATIONS:
        assert len(conversation.turns) == 10
        for question in conversation.questions:
            assert len(conversation.said(*question.sees)) == 3
            assert all(fact in shown(conversation.said(*question.sees)) for fact in question.facts)


@pytest.mark.parametrize(("conversation", "question"), ASKED)
def test_a_step_that_sees_three_turns_of_ten_reads_a_quarter_and_finds_what_it_is_asked_for(
    conversation: Conversation, question: Question
) -> None:
    whole = total(conversation.said())
    seen = condense(conversation.said(*question.sees), question.prompt, whole // 4)
    assert total(seen) < 0.3 * whole
    assert [fact for fact in question.facts if fact not in shown(seen)] == []


@pytest.mark.parametrize(("share", "least"), [(0.1, 0.7), (0.2, 0.8), (0.3, 0.85)])
def test_of_all_ten_turns_most_of_what_is_asked_for_is_found_in_a_small_part(share: float, least: float) -> None:
    """Words alone cannot find everything: who asks what the movers charge does not say what Kowalski wants."""
    found = asked = 0
    for conversation in CONVERSATIONS:
        for question in conversation.questions:
            budget = int(share * total(conversation.said()))
            seen = shown(condense(conversation.said(), question.prompt, budget))
            found += sum(fact in seen for fact in question.facts)
            asked += len(question.facts)
    assert found >= least * asked


@pytest.mark.parametrize(("conversation", "question"), ASKED)
async def test_a_summary_by_a_model_takes_the_place_of_the_older_turns(
    conversation: Conversation, question: Question
) -> None:
    """The model is scripted: it says what a good one would, if it finds it in what it is given."""

    async def ask(prompt: str, at_most_tokens: int) -> str:
        given = " ".join(prompt.split())
        return " ".join(f"{fact}." for fact in question.facts if fact in given)

    whole = total(conversation.said())
    seen = await summarise(conversation.said(), question.prompt, whole // 4, ask)
    assert total(seen) < 0.3 * whole
    assert seen[-1] == conversation.said()[-1]
    assert [fact for fact in question.facts if fact not in shown(seen)] == []
